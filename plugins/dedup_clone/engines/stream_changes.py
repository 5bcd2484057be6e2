"""The load task of engine `cdc`: streams the new, changed and deleted rows, which the Spark job has found, into
staging.

Staging must hold the parent generation's rows. A streamed row replaces or deletes staging's row of the same key, so
sending it twice does no harm, and a retry of a killed task begins anew. A row's sequence number begins with the
generation, so BigQuery ignores a late row of an earlier attempt if a later attempt has streamed the same key.

A try may only seem dead, and wake up. CURRENT names the try that may stream, and each connection asks for that first
(warehouse/append_rows.py). So whoever goes on after another try waits until the connections of that try have ended.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, LostRace
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.contract.table import NEW_ROW
from dedup_clone.engines.staging_job import change_of_staging
from dedup_clone.publish.load import finish_load
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Staging
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.append_rows import CONNECTION_S
from dedup_clone.warehouse.row_messages import DELETE, UPSERT, sequence_number

_BATCH_ROWS = 10_000
_PROGRESS_S = 10.0  # between two progress lines of the log
# A publish fails if BigQuery has not applied the rows after this many times `max_staleness`. The factor exceeds 1,
# because BigQuery may apply rows some minutes later than `max_staleness`.
APPLY_TIMEOUT_FACTOR = 3
# When a try has not been allowed to open connections for this long, none of its rows can arrive any more. Clocks may
# differ by a minute.
WRITER_GONE_AFTER = timedelta(seconds=CONNECTION_S + 60)


def changes_to_stream(
    services: Services, attempt: Attempt, candidate: Candidate, manifest: Manifest
) -> FileList | None:
    """The files with the rows to stream; None if a load job must fill staging.

    Logs why a load job must do it, unless another engine or a rollback made the generation. Raises ContractViolation if
    the parent's manifest or the list of changes is gone.
    """
    if manifest.engine is not Engine.CDC or manifest.restores is not None:
        return None
    if candidate.changes_uri is None or attempt.parent is None:
        why = "it is the first generation" if attempt.parent is None else "the parent has no date within the retention"
        services.log(f"loads staging instead of streaming changes: {why}")
        return None
    parent = services.manifests.read(attempt.parent)
    changes = services.manifests.file_list(candidate.changes_uri)
    if _earlier_try_began(services, attempt):
        return changes
    reason = _reason_to_load(services, manifest, parent, changes)
    if reason is None:
        return changes
    services.log(f"loads staging instead of streaming changes: {reason}", generation=attempt.generation)
    return None


def _earlier_try_began(services: Services, attempt: Attempt) -> bool:
    """Whether an earlier try of this attempt's task began to stream."""
    staging = services.current.read().staging
    return staging is not None and bool(staging.writer) and staging.attempt == attempt.id


def _reason_to_load(services: Services, manifest: Manifest, parent: Manifest, changes: FileList) -> str | None:
    """Why a load job must fill staging instead, as text; None if changes can be streamed."""
    max_share = services.feed.cdc.max_changed_share
    if changes.row_count > max_share * manifest.rows:
        return (
            f"[{changes.row_count}] of [{manifest.rows}] rows changed, more than the share [{max_share}] "
            f"(cdc.max_changed_share)"
        )
    if parent.table.columns != manifest.table.columns:
        return "columns were added or changed"
    return change_of_staging(services, parent)


def writers_gone_at(services: Services, attempt: Attempt) -> datetime | None:
    """When no row of an earlier attempt can arrive in staging any more; None if that time has passed.

    Before that, no load may fill staging: BigQuery might apply such a row on top of it.
    """
    staging = services.current.read().staging
    writer = None if staging is None else services.manifests.find_attempt(staging.attempt)
    if writer is None or writer.id == attempt.id or writer.engine is not Engine.CDC:
        return None
    gone_at = attempt.taken_at + WRITER_GONE_AFTER  # with the lease, this attempt stopped all earlier ones
    return None if services.now() >= gone_at else gone_at


def stream_changes(
    services: Services,
    attempt: Attempt,
    manifest: Manifest,
    changes: FileList,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Stream the rows, and return when BigQuery has acknowledged all.

    Does nothing if an earlier try of the task streamed all rows and BigQuery is not overdue with applying them. Raises
    JobFailed, and LostRace if the attempt has lost the lease, or if another try streams.
    """
    streamed = services.store.read_record(StreamedChanges, services.layout.streamed_changes(attempt.id))
    if streamed is not None and not streamed.is_overdue:
        return
    began_at, staging = services.now(), services.feed.staging
    is_retry, writer = _earlier_try_began(services, attempt), Staging(attempt.id, writer=secrets.token_hex(4))
    services.current.record_staging(writer)
    if is_retry:
        services.log("waits until no row of an earlier try can arrive any more", generation=attempt.generation)
        sleep(WRITER_GONE_AFTER.total_seconds())
    max_staleness = services.feed.cdc.max_staleness_minutes
    services.warehouse.alterations.prepare_for_changes(staging, manifest.table.keys, max_staleness)
    require_writer = partial(_require_writer, services, writer)
    appender = services.warehouse.open_stream(staging, manifest.table.columns, require_writer)
    next_report_at = time.monotonic() + _PROGRESS_S
    for row, sequence, change_type in _rows(services, manifest, changes):
        appender.append(row, sequence, change_type)
        if time.monotonic() >= next_report_at:
            services.log(f"streamed {appender.rows} of {changes.row_count} rows", generation=attempt.generation)
            next_report_at = time.monotonic() + _PROGRESS_S
    appender.finish()
    record = StreamedChanges(
        rows=appender.rows,
        size=appender.size,
        began_at=began_at,
        # By BigQuery's clock, like the watermarks that are compared with it.
        acknowledged_at=services.warehouse.watermark(services.names, staging).observed_at,
    )
    services.store.put(services.layout.streamed_changes(attempt.id), to_json(record))
    services.log(f"streamed {record.rows} rows, {record.size} bytes", generation=attempt.generation)


def _require_writer(services: Services, writer: Staging) -> None:
    """Raise LostRace if the attempt of `writer` has ended or is being ended, or if another try of it streams."""
    services.current.record_jobs(writer.attempt, ())
    if services.current.read().staging != writer:
        raise LostRace(f"Another try of this task streams the changes of attempt [{writer.attempt}] by now.")


def _rows(services: Services, manifest: Manifest, files: FileList) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Each row with its sequence number, and whether it is to be replaced or deleted; of a deleted row only the key."""
    import pyarrow.parquet as pq

    id_column = manifest.table.snapshot_id_column
    sequences = {
        delivery.snapshot_id: sequence_number(manifest.generation, delivery.snapshot_id, delivery.marker_generation)
        for delivery in manifest.applied
    }
    newest = sequences[max(sequences)]
    folder = services.layout.changes_folder(manifest.attempt)
    for file in files.files:
        with services.store.open(f"{folder}{file.path}") as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=[NEW_ROW, *manifest.table.keys]):
                for change in batch.to_pylist():
                    row = change.pop(NEW_ROW)
                    # A deleted row has no new row. The newest delivery lacks its key.
                    yield (change, newest, DELETE) if row is None else (row, sequences[row[id_column]], UPSERT)


def finish_if_applied(services: Services, attempt: Attempt, manifest: Manifest) -> bool:
    """Return whether BigQuery has applied all rows that were streamed into staging.

    If it has, record that staging holds the generation. Raises CheckFailed when BigQuery takes longer than
    APPLY_TIMEOUT_FACTOR times `max_staleness`, and what `finish_load` raises.
    """
    record = services.store.read_record(StreamedChanges, services.layout.streamed_changes(attempt.id))
    assert record
    if record.applied_at is None:
        watermark = services.warehouse.watermark(services.names, services.feed.staging)
        applied_until = watermark.applied_until
        is_applied = record.rows == 0 or (applied_until is not None and applied_until >= record.acknowledged_at)
        max_minutes = services.feed.cdc.max_staleness_minutes * APPLY_TIMEOUT_FACTOR
        overdue_at = record.acknowledged_at + timedelta(minutes=max_minutes)
        record = replace(
            record,
            applied_at=watermark.observed_at if is_applied else None,
            is_overdue=not is_applied and watermark.observed_at >= overdue_at,
        )
        services.store.put(services.layout.streamed_changes(attempt.id), to_json(record))
        if record.is_overdue:
            raise CheckFailed(
                f"BigQuery has not applied the changes streamed into [{services.feed.staging}] within [{max_minutes}] "
                f"minutes: applied until [{applied_until or 'never'}], expected [{record.acknowledged_at}]. "
                f"See the background jobs of change data capture in BigQuery's job list; then clear the run from its "
                f"first task, which streams the rows again, or replay the snapshot with engine [spark]."
            )
    if record.applied_at is None:
        return False
    finish_load(services, attempt, manifest)
    return True
