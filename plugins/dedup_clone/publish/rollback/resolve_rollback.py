"""First task of a rollback: prepares an earlier generation's content as a new generation, for load, check and swap.

If BigQuery's time travel still reaches the time when staging held that generation, the swap clones staging as of that
time, and nothing is loaded. Otherwise the generation is loaded from its files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import dedup_clone
from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import check_rows, check_staging_unchanged
from dedup_clone.contract.errors import ConfigurationError, RollbackRefused
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Candidate, DateOutcome, DedupMetrics, FileList, Manifest
from dedup_clone.contract.schema_change import added_columns, refused_table_changes, widened_columns
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.records.erasure_records import last_erasure_generation
from dedup_clone.publish.records.index_refresh import GENERATIONS_LISTED
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.publish.waiting_deliveries import excluded_after
from dedup_clone.state.current import Intent
from dedup_clone.state.index import published_records
from dedup_clone.state.staging import StagingState

# The clone must still be possible when the swap runs, after the checks.
TIME_TRAVEL_MARGIN = timedelta(hours=1)


@dataclass(frozen=True)
class RollbackRequest:
    """The form of a rollback run. `generation`: the one to restore. `live_shown`: the live one in the preview."""

    dag_id: str
    run_id: str
    generation: int
    live_shown: int
    reason: str


@dataclass(frozen=True)
class RestorableGeneration:
    """A generation that can be restored: by a clone of staging as of `restored_at`, or from files if that is None.

    `snapshot_id`: the snapshot that the status view named for it. `swapped_at`: when it became live.
    """

    manifest: Manifest
    snapshot_id: int
    swapped_at: datetime
    restored_at: datetime | None


def restorable_generations(services: Services) -> list[RestorableGeneration]:
    """Those of the last GENERATIONS_LISTED generations that a rollback can restore, newest first.

    The live one is among them, for the case that somebody changed target. So it is not compared with target's columns.
    Another generation from before columns were added is restored from its files: the load keeps these columns, with
    NULL in all rows. A clone of staging as of an earlier time would lack them.
    """
    live, oldest = services.current.read().generation, _oldest_in_time_travel(services)
    if live is None:
        return []
    erasure_generation = last_erasure_generation(services, live)
    target, restorable = services.warehouse.table(services.feed.target), []
    live_table = services.manifests.read(live).table
    for record in reversed(published_records(services.store, services.feed.feed)[-GENERATIONS_LISTED:]):
        if record.swapped_at and record.generation >= erasure_generation:
            manifest = services.manifests.find(record.generation)
            is_live = record.generation == live
            if manifest is None:
                continue  # lost: nobody knows which rows the generation had
            # Target may have more columns than the live manifest, if the live generation was restored.
            columns = target.columns if target and not is_live else live_table.columns
            added = added_columns(manifest.table.columns, columns)
            if widened_columns(manifest.table.columns, columns):
                continue  # its files, and staging as of that time, have the narrower type
            if refused_table_changes(manifest.table, replace(live_table, columns=columns)):
                continue  # the table was rebuilt since
            restored_at = None if added else _clonable_as_of(services, manifest, oldest)
            if is_live and restored_at is None:
                restored_at = _held_by_staging_at(services, manifest)
            if restored_at or (not _is_nested(added) and services.manifests.files_exist(manifest)):
                restorable.append(RestorableGeneration(manifest, record.snapshot_id, record.swapped_at, restored_at))
    return restorable


def find_restorable(services: Services, generation: int) -> RestorableGeneration:
    """Return the generation. Raises ConfigurationError, which names the restorable ones, if it cannot be restored."""
    restorable = restorable_generations(services)
    by_generation = {r.manifest.generation: r for r in restorable}
    if generation not in by_generation:
        raise ConfigurationError(
            f"Generation [{generation}] of [{services.feed.feed}] cannot be made live again: it was never "
            f"published, may contain keys that were erased since, has lost its manifest, is neither within "
            f"BigQuery's time travel nor among the retained files, or is older than nested columns of the table, the "
            f"type of a column or a rebuild. "
            f"Choose one of: {_names(restorable)}; or replay a snapshot."
        )
    return by_generation[generation]


def _names(restorable: list[RestorableGeneration]) -> str:
    return ", ".join(f"{r.manifest.generation} (snapshot {r.snapshot_id})" for r in restorable) or "none"


def resolve_rollback(services: Services, rollback_request: RollbackRequest) -> PublishSpec:
    """Recover a dead run, acquire the lease, write the restored generation as candidate. Returns the run's spec.

    Raises LeaseHeld while another run is at work, RollbackRefused when another generation has become live since the
    preview, ConfigurationError when the generation cannot be restored, LostRace, and what `CurrentFile.read_for` and
    `recover` raise.
    """
    dag_id, run_id = rollback_request.dag_id, rollback_request.run_id
    services.current.read_for(services.environment)
    recover(services, dag_id=dag_id, run_id=run_id)
    live = services.current.read().generation
    if live != rollback_request.live_shown:
        raise RollbackRefused(
            f"Generation [{live}] of [{services.feed.feed}] is live by now, expected [{rollback_request.live_shown}], "
            f"which the approved preview was made for. Nothing was changed: trigger the rollback again to see what "
            f"it would change now. These generations can be restored: {_names(restorable_generations(services))}."
        )
    restorable = find_restorable(services, rollback_request.generation)
    restored_at = restorable.restored_at
    intent = services.current.acquire_lease(
        services.environment, live, Kind.ROLLBACK, dag_id=dag_id, run_id=run_id, now=services.now()
    )
    live_manifest = services.manifests.read(rollback_request.live_shown)
    manifest = _restored_manifest(services, restorable.manifest, intent, live_manifest)
    services.manifests.write_candidate(intent.attempt, _candidate(services, restorable.manifest, manifest))
    services.log(
        f"acquired the lease for attempt [{intent.attempt}]: restores generation {restorable.manifest.generation} "
        f"{f'as staging was at {restored_at:%Y-%m-%d %H:%M:%S} UTC' if restored_at else 'from its files'}"
        f", excludes {[d.name for d in manifest.excluded]}",
        snapshot_id=restorable.snapshot_id,
        generation=intent.generation,
    )
    return PublishSpec(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=manifest.engine,
        snapshot_id=restorable.snapshot_id,
        request_uri="",
        restores=restorable.manifest.generation,
        restored_at=restored_at,
        reason=rollback_request.reason,
    )


def _oldest_in_time_travel(services: Services) -> datetime | None:
    """The earliest time as of which staging can be cloned; None if staging does not exist."""
    staging = services.warehouse.table(services.feed.staging)
    if staging is None:
        return None
    window = services.warehouse.time_travel_window() - TIME_TRAVEL_MARGIN
    return max(services.now() - window, staging.created_at)


def _is_nested(columns: list[str]) -> bool:
    """Whether one of the columns is inside a STRUCT. BigQuery loads no file that lacks fields of a STRUCT."""
    return any("." in path for path in columns)


def _clonable_as_of(services: Services, manifest: Manifest, oldest: datetime | None) -> datetime | None:
    """A time when staging held exactly this generation; None if none is recorded or time travel does not reach it."""
    swap = find_swap(services, manifest.attempt)
    return swap.checked_at if swap and oldest and swap.checked_at > oldest else None


def _held_by_staging_at(services: Services, live: Manifest) -> datetime | None:
    """The present time if staging still holds the live generation unchanged; None if it does not, or if nobody knows.

    So the generation can be restored even when time travel does not reach its swap any more.
    """
    staging, swap = services.staging.read(), find_swap(services, live.attempt)
    if staging is None or swap is None:
        return None
    if staging.state is not StagingState.LOADED or staging.manifest_digest != live.digest:
        return None
    if services.warehouse.table(services.feed.staging) is None:
        return None
    seen = services.warehouse.observe(services.names, services.feed.staging)
    results = check_rows("staging_rows", live, seen), check_staging_unchanged(seen, swap.checked_at)
    return seen.observed_at if all(result.level is Level.PASS for result in results) else None


def _restored_manifest(services: Services, source: Manifest, intent: Intent, live: Manifest) -> Manifest:
    """The new generation's manifest: the content of `source`, the restored one. `live`: the generation that is live."""
    has_files = services.manifests.files_exist(source)
    reason = f"content of generation {source.generation}"
    return replace(
        source,
        kind=intent.kind,
        table=replace(source.table, retention_days=_retention_of_staging(services, source)),
        generation=intent.generation,
        parent=intent.parent,
        restores=source.generation,
        data_folder=source.data_folder if has_files else None,
        file_list_digest=source.file_list_digest if has_files else "",
        excluded=excluded_after(services, live, source),
        applied=(),
        code_version=dedup_clone.__version__,
        run_id=intent.run_id,
        attempt=intent.attempt,
        created_at=services.now(),
        dropped_rows=0,
        dates=tuple(
            replace(e, new_keys=0, changed=None, ties=0, plan=DateOutcome.RESTORED, plan_reason=reason)
            for e in source.dates
        ),
    )


def _retention_of_staging(services: Services, source: Manifest) -> int:
    """For how many days staging keeps its partitions now: a rollback does not change that."""
    staging = services.warehouse.table(services.feed.staging)
    return round(staging.expiration_days) if staging and staging.expiration_days else source.table.retention_days


def _candidate(services: Services, source: Manifest, manifest: Manifest) -> Candidate:
    """The candidate with the new generation's `manifest`, and with the files of `source` if they still exist."""
    files = services.manifests.committed_files(source.generation)
    file_list_uri = load_uris_uri = None
    if files is not None and manifest.data_folder is not None:
        file_list_uri = services.store.uri(services.layout.file_list(source.generation))
        load_uris_uri = _write_uris(services, manifest, files)
    return Candidate(
        manifest=manifest,
        file_list_uri=file_list_uri,
        load_uris_uri=load_uris_uri,
        deliveries=(),
        refused=(),
        examples=(),
        metrics=DedupMetrics(0, 0, {}),
    )


def _write_uris(services: Services, manifest: Manifest, files: FileList) -> str:
    name = f"{services.layout.attempt_folder(manifest.attempt)}uris.txt"
    services.store.put(name, "".join(f"{manifest.data_folder}{file.path}\n" for file in files.files))
    return services.store.uri(name)
