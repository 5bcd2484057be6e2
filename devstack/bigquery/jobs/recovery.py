"""After a kill: every job that was under way is DONE, good if its commit is in a table's version, else failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from devstack.bigquery.errors import BackendError
from devstack.bigquery.jobs.record import DONE, JobRecord, error_proto
from devstack.bigquery.jobs.store import JobStore
from devstack.bigquery.storage.catalog import Catalog


@dataclass(frozen=True)
class _Outcome:
    statistics: Mapping[str, Any]
    committed_us: int


def recover_jobs(store: JobStore, catalog: Catalog) -> int:
    """Returns how many jobs were under way."""
    open_records = [record for record in store.all() if record.state != DONE]
    if not open_records:
        return 0
    oldest_us = min(record.created_us for record in open_records)
    outcomes = dict(_outcomes(catalog, oldest_us))
    for record in open_records:
        store.save(_ended(record, outcomes.get(record.key), catalog.clock.now_us()))
    return len(open_records)


def _outcomes(catalog: Catalog, since_us: int) -> Iterator[tuple[str, _Outcome]]:
    for _, history in catalog.histories():
        for version in history.versions_since(since_us - 1):
            mark = version.job
            if mark is None:
                continue
            yield mark.key, _Outcome(mark.statistics, version.committed_us)
            if mark.parent_key is not None and mark.parent_statistics is not None:
                yield mark.parent_key, _Outcome(mark.parent_statistics, version.committed_us)


def _ended(record: JobRecord, outcome: _Outcome | None, now_us: int) -> JobRecord:
    started_us = record.started_us or record.created_us
    if outcome is not None:
        return replace(
            record, state=DONE, started_us=started_us, ended_us=outcome.committed_us, statistics=outcome.statistics
        )
    error = BackendError(
        f"Job {record.key} was under way when the stand-in stopped and had not committed: "
        "run it again under a new job id."
    )
    return replace(record, state=DONE, started_us=started_us, ended_us=now_us, error=error_proto(error))
