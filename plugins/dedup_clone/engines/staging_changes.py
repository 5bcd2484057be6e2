"""The load task of engine `cdc`: streams the rows that the Spark job found new or changed into staging, or into target.

The table must hold the parent generation's rows. Each row replaces that of its key, so rows that are sent twice do no
harm, and a task that was killed begins again. A row's sequence number is made of generation, snapshot id and delivery:
what a former attempt sent late loses against it. BigQuery applies the rows within the table's `max_staleness`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import rows_match
from dedup_clone.contract.changes import NEW_ROW
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.engines.direct_changes import reason_for_staging
from dedup_clone.engines.staging_job import holds_parent
from dedup_clone.publish.load import finish_load
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.staging import Staging, StagingState
from dedup_clone.state.streamed_changes import StreamedChanges
from dedup_clone.warehouse.change_data_capture import Watermark
from dedup_clone.warehouse.row_messages import sequence_number

_BATCH_ROWS = 10_000
_PROGRESS_S = 10.0
# BigQuery's buffer takes some minutes to be converted, besides what `max_staleness` allows.
APPLY_TIMEOUT_FACTOR = 3


@dataclass(frozen=True)
class Changes:
    """The files with the rows to stream, and the name of the table that takes them: staging or target."""

    files: FileList
    table: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.files)


def changes_to_stream(
    services: Services, spec: PublishSpec, candidate: Candidate, manifest: Manifest
) -> Changes | None:
    """What to stream; None if a load job is to fill staging, for a reason that is logged."""
    if manifest.engine is not Engine.CDC or manifest.restores is not None:
        return None
    if candidate.changes_uri is None or spec.parent is None:
        services.log("loads staging instead of streaming changes: it is the first generation")
        return None
    feed, parent = services.feed, services.manifests.read(spec.parent)
    changes = Changes(services.manifests.file_list(candidate.changes_uri), feed.staging)
    begun = _table_of_earlier_try(services, spec)
    if begun is not None:
        return replace(changes, table=begun)
    reason = _too_many(services, manifest, changes)
    if reason is None and feed.cdc.publish == "direct":
        why_not = reason_for_staging(services, spec, candidate, manifest, parent)
        if why_not is None:
            return replace(changes, table=feed.target)
        services.log(f"publishes by staging and not directly: {why_not}", generation=spec.generation)
    reason = reason or _reason_to_load(services, spec, manifest, parent)
    if reason is None:
        return changes
    services.log(f"loads staging instead of streaming changes: {reason}", generation=spec.generation)
    return None


def _table_of_earlier_try(services: Services, spec: PublishSpec) -> str | None:
    """The table into which an earlier try of this attempt's task began to stream."""
    staging = services.staging.read()
    if staging is None or not staging.is_streamed or staging.attempt != spec.attempt:
        return None
    return services.feed.target if staging.state is StagingState.BEHIND else services.feed.staging


def _too_many(services: Services, manifest: Manifest, changes: Changes) -> str | None:
    max_share = services.feed.cdc.max_changed_share
    if changes.rows <= max_share * manifest.rows:
        return None
    return (
        f"[{changes.rows}] of [{manifest.rows}] rows changed, more than the share [{max_share}] (cdc.max_changed_share)"
    )


def _reason_to_load(services: Services, spec: PublishSpec, manifest: Manifest, parent: Manifest) -> str | None:
    if not holds_parent(services, spec):
        return f"staging does not hold generation [{parent.generation}]"
    if parent.table.columns != manifest.table.columns:
        return "columns were added or changed"
    return _change_since_check(services, parent)


def _change_since_check(services: Services, parent: Manifest) -> str | None:
    """How staging differs from what the parent's checks found, as text; None if it does not.

    Anybody may have changed it, for example a task of a run that was recovered as dead.
    """
    swap = find_swap(services, parent.attempt)
    staging = services.warehouse.observe(services.names, services.feed.staging)
    if swap is None or rows_match("staging_rows", parent, staging).level is not Level.PASS:
        return f"staging has other rows than generation [{parent.generation}]"
    if any(partition.last_modified_at > swap.checked_at for partition in staging.partitions):
        return f"staging was changed after the checks of generation [{parent.generation}]"
    return None


def stream_changes(services: Services, spec: PublishSpec, manifest: Manifest, changes: Changes) -> None:
    """Stream the rows, and return when BigQuery has acknowledged all. Raises JobFailed and LostRace.

    Does nothing if an earlier try of the task did it, unless BigQuery did not apply the rows in time.
    """
    streamed = services.streamed_changes.read(spec.attempt)
    if streamed is not None and not streamed.is_overdue:
        return
    services.current.require_intent(spec.attempt)
    began_at = services.now()
    state = StagingState.BEHIND if changes.table == services.feed.target else StagingState.LOADING
    services.staging.write(Staging(state, spec.attempt, spec.generation, manifest.digest, is_streamed=True))
    # Of both tables, because a later swap must not take from target what staging lacks.
    for table in dict.fromkeys((services.feed.staging, changes.table)):
        services.warehouse.cdc.prepare(table, manifest.table.keys, services.feed.cdc.max_staleness_minutes)
    appender = services.warehouse.cdc.open_stream(changes.table, manifest.table.columns)
    expected, next_report = changes.rows, time.monotonic() + _PROGRESS_S
    try:
        for row, sequence in _rows(services, manifest, changes.files):
            appender.append(row, sequence)
            if time.monotonic() >= next_report:
                services.current.require_intent(spec.attempt)
                services.log(f"streamed {appender.rows} of {expected} rows", generation=spec.generation)
                next_report = time.monotonic() + _PROGRESS_S
        appender.finish()
    finally:
        appender.close()
    seen = services.warehouse.cdc.watermark(services.names, changes.table)
    record = StreamedChanges(
        rows=appender.rows,
        size=appender.size,
        requests=appender.requests,
        began_at=began_at,
        acknowledged_at=seen.observed_at,
        bytes_billed=seen.bytes_billed,
    )
    services.streamed_changes.write(spec.attempt, record)
    services.log(f"streamed {record.rows} rows, {record.size} bytes", generation=spec.generation)


def _rows(services: Services, manifest: Manifest, files: FileList) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row with its sequence number."""
    import pyarrow.parquet as pq

    id_column = manifest.table.snapshot_id_column
    sequences = {
        delivery.snapshot_id: sequence_number(manifest.generation, delivery.snapshot_id, delivery.marker_generation)
        for delivery in manifest.applied
    }
    folder = services.layout.changes_folder(manifest.attempt)
    for file in files.files:
        with services.store.open(f"{folder}{file.path}") as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=[NEW_ROW]):
                for row in batch.column(0).to_pylist():
                    yield row, sequences[row[id_column]]


def finish_if_applied(services: Services, spec: PublishSpec, manifest: Manifest, table: str) -> bool:
    """Return whether BigQuery has applied all rows that were streamed. If so, record that staging holds the generation.

    `table`: the one that took the rows. Target gets the generation's labels only by the swap.

    Raises CheckFailed when BigQuery takes longer than APPLY_TIMEOUT_FACTOR times `max_staleness`.
    """
    changes = services.streamed_changes.read(spec.attempt)
    assert changes
    if changes.applied_at is None:
        seen = services.warehouse.cdc.watermark(services.names, table)
        is_applied = changes.rows == 0 or _has_passed(seen, changes.acknowledged_at)
        minutes = services.feed.cdc.max_staleness_minutes * APPLY_TIMEOUT_FACTOR
        changes = replace(
            changes,
            applied_at=seen.observed_at if is_applied else None,
            is_overdue=not is_applied and seen.observed_at >= changes.acknowledged_at + timedelta(minutes=minutes),
            bytes_billed=changes.bytes_billed + seen.bytes_billed,
        )
        services.streamed_changes.write(spec.attempt, changes)
        if changes.is_overdue:
            raise CheckFailed(
                f"BigQuery has not applied the changes streamed into [{table}] within [{minutes}] "
                f"minutes: applied until [{seen.applied_until or 'never'}], expected [{changes.acknowledged_at}]. "
                f"No generation went live. See the background jobs of change data capture in BigQuery's job list; then "
                f"clear the run from load_staging, which streams the rows again, or replay the snapshot with engine "
                f"[spark]."
            )
    if changes.applied_at is None:
        return False
    if table == services.feed.staging:
        finish_load(services, spec, manifest)
    return True


def _has_passed(watermark: Watermark, moment: datetime) -> bool:
    return watermark.applied_until is not None and watermark.applied_until >= moment
