"""The dedup task of the SQL engines, without Airflow: makes the candidate of a dedup request.

The candidate says what the load task will write to staging; the dedup task itself writes nothing there. The candidate
is written last, and only if the attempt has none yet, like that of the Spark job. Every BigQuery job of the task
succeeds at most once per attempt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, DedupMetrics, DeliveryMetrics, RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.date_counts import CountedDates, count_dates
from dedup_clone.engines.delivery_examination import ExaminedDelivery, examine, require_unchanged
from dedup_clone.engines.incoming_load import load_incoming
from dedup_clone.engines.sql_manifest import build_manifest
from dedup_clone.publish.services import Services


def dedup_in_bigquery(services: Services, attempt: str) -> None:
    """Write the attempt's candidate, unless it exists.

    Raises DeliveryRefused when landed files changed while BigQuery read them; ContractViolation when target was changed
    or has row access policies, or a record such as the request is gone; CheckFailed when a query would read more than
    the feed's `max_bytes_billed`; LostRace when the attempt has lost the lease; JobFailed; OutcomeUnknown after too
    many failed jobs of one step.
    """
    services.current.require_intent(attempt)
    if services.manifests.candidate(attempt) is not None:
        return
    request = services.manifests.request(attempt)
    if request is None:
        name = services.store.uri(services.layout.request(attempt))
        raise ContractViolation(f"[{name}] is gone: clear the run from its first task.")
    _require_no_row_policies(services, request)
    services.manifests.write_candidate(attempt, _DedupTask(services, request).make_candidate())


def _require_no_row_policies(services: Services, request: DedupRequest) -> None:
    """Raise ContractViolation if target has row access policies: a query might miss rows that the policies hide."""
    target = services.feed.target
    policies = services.warehouse.policies(target).row_access if request.parent else ()
    if policies:
        raise ContractViolation(
            f"Target [{target}] has row access policies [{', '.join(policies)}], so engine [{request.engine}] may not "
            f"see all rows of target: replay with engine [spark], and declare the policies in the feed's file."
        )


@dataclass
class _DedupTask:
    """Makes the candidate of one request. `seconds`: the duration of each phase, for the candidate's metrics."""

    services: Services
    request: DedupRequest
    seconds: dict[str, float] = field(default_factory=dict)

    def make_candidate(self) -> Candidate:
        with self._phase("examine"):
            examination = examine(self.services, self.request)
        with self._phase("append"):
            applied, undecodable = load_incoming(self.services, self.request, examination.valid)
        refused = examination.refused + undecodable
        for item in refused:
            self.services.log(f"refused: {item.reason}", snapshot_id=item.delivery.snapshot_id)
        if not applied:
            return Candidate(
                manifest=None,
                file_list_uri=None,
                load_uris_uri=None,
                deliveries=(),
                refused=refused,
                examples=(),
                metrics=self._metrics(examination.bytes_processed),
            )
        with self._phase("evidence"):
            counted = self._count(applied)
        with self._phase("verify"):
            require_unchanged(self.services, self.request, applied)
        return self._candidate(applied, refused, counted, examination.bytes_processed + counted.bytes_processed)

    def _count(self, applied: tuple[ExaminedDelivery, ...]) -> CountedDates:
        first_days = [item.first_day for item in applied if item.first_day]
        last_days = [item.last_day for item in applied if item.last_day]
        if not first_days:
            return CountedDates((), (), 0)  # every row of every delivery is older than the retention
        return count_dates(self.services, self.request, min(first_days), max(last_days))

    def _candidate(
        self,
        applied: tuple[ExaminedDelivery, ...],
        refused: tuple[RefusedDelivery, ...],
        counted: CountedDates,
        bytes_read: int,
    ) -> Candidate:
        services, parent = self.services, self.request.parent
        manifest = build_manifest(
            self.request,
            counted,
            None if parent is None else services.manifests.read(parent.generation),
            tuple(item.delivery for item in applied),
            delivered_rows_dropped=sum(item.dropped_rows for item in applied),
            now=services.now(),
        )
        surplus = counted.surplus_rows_by_snapshot()
        deliveries = tuple(
            DeliveryMetrics(item.delivery, item.rows, item.dropped_rows, surplus.get(item.delivery.snapshot_id, 0))
            for item in applied
        )
        return Candidate(
            manifest=manifest,
            file_list_uri=None,
            load_uris_uri=None,
            deliveries=deliveries,
            refused=refused,
            examples=counted.examples,
            metrics=self._metrics(bytes_read),
        )

    def _metrics(self, bytes_read: int) -> DedupMetrics:
        return DedupMetrics(bytes_read=bytes_read, bytes_written=0, seconds=dict(self.seconds))

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - start, 3)
