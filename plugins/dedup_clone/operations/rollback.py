"""Rollback: an earlier generation's content becomes a new generation.

If BigQuery's time travel still reaches the time when staging held that generation, the swap clones staging as of that
time, and nothing is loaded. Otherwise the generation is loaded from its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import dedup_clone
from dedup_clone.checks.check_result import Level, require_no_failure
from dedup_clone.checks.partition_checks import check_rows, check_staging_unchanged
from dedup_clone.contract.attempt import Attempt, Kind, Swap
from dedup_clone.contract.delivery import Delivery, split_backlog
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Candidate, DateEntry, DateOutcome, Manifest
from dedup_clone.contract.schema_change import added_columns, refused_table_changes, widened_columns
from dedup_clone.contract.table import PartitionBy
from dedup_clone.publish.attempts import Form, begin_attempt, find_swap, write_attempt
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.declared_form import require_staging
from dedup_clone.publish.early_checks import NOT_DEDUPLICATED, check_before_dedup
from dedup_clone.publish.erasure_records import last_erasure_generation
from dedup_clone.publish.parent_generation import live_manifest, without_expired
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services

# The clone must still be possible when the swap runs, after the checks.
TIME_TRAVEL_MARGIN = timedelta(hours=1)
GENERATIONS_LISTED = 50  # a rollback restores one of the last 50 generations


@dataclass(frozen=True, kw_only=True)
class RollbackRequest(Form):
    """The form of a rollback run. `generation`: the one to restore."""

    generation: int


@dataclass(frozen=True)
class RestorableGeneration:
    """A generation that can be restored: by a clone of staging as of `restored_at`, or from files if that is None.

    `has_files`: whether its files exist and are retained. A prune may be deleting the others.
    """

    manifest: Manifest
    restored_at: datetime | None
    has_files: bool

    @property
    def how(self) -> str:
        if self.restored_at is None:
            return "a load of the generation's files"
        return f"a clone of staging as it was at {self.restored_at:%Y-%m-%d %H:%M:%S} UTC"


def preview(services: Services, request: RollbackRequest) -> tuple[int, str]:
    """The live generation, and as Markdown what the rollback would do.

    Raises CheckFailed if a check of the tables, which run again before the swap, fails.
    """
    live = live_manifest(services, "roll back")
    restorable = _find_restorable(services, request.generation, live)
    require_no_failure(check_before_dedup(services, live.generation, Kind.ROLLBACK), NOT_DEDUPLICATED)
    restored = restorable.manifest
    excluded_now, excluded_then = set(live.excluded), set(_excluded_after(services, live, restored))
    lines = [
        f"**{services.feed.feed}: from generation {live.generation} to the content of {restored.generation}**",
        "",
        f"- Readers see snapshot {live.snapshot_id} now ({live.rows} rows). After the rollback they see snapshot "
        f"{restored.snapshot_id} ({restored.rows} rows), made at {restored.created_at:%Y-%m-%d %H:%M:%S} UTC.",
        f"- It is restored by {restorable.how}, and swapped in one statement.",
        f"- Excluded until somebody replays them or they are delivered again: {_names(excluded_then - excluded_now)}.",
        f"- No longer excluded: {_names(excluded_now - excluded_then)}.",
        f"- {_dates(live, restored)}",
        f"- The next arrival builds on the restored rows. Waiting now: {waiting_names(services, live)}.",
    ]
    if restored.generation == live.generation:
        lines.append("- This generation is live: the rollback undoes what somebody changed in target since its swap.")
    return live.generation, "\n".join(lines)


def prepare(services: Services, request: RollbackRequest, live_shown: int) -> Attempt:
    """Recover a dead run, acquire the lease, write the attempt, and the restored generation as its candidate."""
    recover(services, request)
    live = live_manifest(services, "roll back", shown=live_shown)
    restorable = _find_restorable(services, request.generation, live)
    attempt = begin_attempt(
        services,
        request,
        Kind.ROLLBACK,
        live.generation,
        engine=restorable.manifest.engine,
        snapshot_id=restorable.manifest.snapshot_id,
    )
    attempt = replace(attempt, restores=restorable.manifest.generation, restored_at=restorable.restored_at)
    require_staging(services, live.table)
    manifest = _restored_manifest(services, restorable, attempt, live)
    what = f"restores generation {restorable.manifest.generation} by {restorable.how}"
    write_attempt(services, attempt, f"{what}, excludes {[delivery.name for delivery in manifest.excluded]}")
    services.manifests.write_candidate(attempt.id, _candidate(services, restorable.manifest, manifest))
    return attempt


def _names(deliveries: Iterable[Delivery]) -> str:
    return ", ".join(sorted(delivery.name for delivery in deliveries)) or "none"


def _dates(live: Manifest, restored: Manifest) -> str:
    """How many dates and which differ."""
    now, then = {e.date: e for e in live.dates}, {e.date: e for e in restored.dates}
    days = {*now, *then}
    different = [day for day in days if _may_differ(now.get(day), then.get(day))]
    return (
        f"{len(different)} of {len(days)} dates differ, or may differ because an engine in SQL wrote no files: "
        f"{format_dates(different)}; {restored.rows - live.rows:+d} rows in all."
    )


def _may_differ(live: DateEntry | None, restored: DateEntry | None) -> bool:
    """Whether the rows or files of a date differ, or may differ because an engine in SQL wrote no files."""
    if live is None or restored is None or not live.files_digest:
        return True
    return any(
        getattr(live, name) != getattr(restored, name)
        for name in ("rows", "min_update_id", "max_update_id", "files_digest")
    )


def _excluded_after(services: Services, live: Manifest, restored: Manifest) -> tuple[Delivery, ...]:
    """The deliveries that a rollback from `live` to `restored` excludes: later publishes include them only by a replay.

    These are the deliveries that `live` includes or excludes and `restored` lacks, and those that `restored` excludes.
    Deliveries that were superseded by one of these are excluded too: a publish would otherwise apply them instead.
    Deliveries that wait now, are held or land later are not excluded.
    """
    lists = services.arrivals.lists()
    backlog = lists.backlog(live)
    processed = lists.registered.keys() - {*lists.refused, *backlog.apply, *backlog.held}
    removed = split_backlog(processed, restored.deliveries, restored.excluded)
    restored_markers = {d.snapshot_id: d.marker_generation for d in restored.deliveries}
    later = [d for d in removed.superseded if d.marker_generation > restored_markers.get(d.snapshot_id, 0)]
    return tuple(sorted({*restored.excluded, *removed.apply, *later}))


def _find_restorable(services: Services, generation: int, live: Manifest) -> RestorableGeneration:
    """Return the generation. Raises ConfigurationError, which names the restorable ones, if it cannot be restored."""
    restorable = {found.manifest.generation: found for found in _restorable_generations(services, live)}
    if generation not in restorable:
        names = ", ".join(f"{number} (snapshot {found.manifest.snapshot_id})" for number, found in restorable.items())
        raise ConfigurationError(
            f"Generation [{generation}] of [{services.feed.feed}] cannot be made live again: it was never "
            f"published, may contain keys that were erased since, has lost its manifest, is neither within "
            f"BigQuery's time travel (which publish.swap copy and partition_by hour or month cannot use) nor among the "
            f"retained files, or is older than nested columns of the table, the type of a column or a rebuild. "
            f"Choose one of: {names or 'none'}; or replay a snapshot."
        )
    return restorable[generation]


def _restorable_generations(services: Services, live: Manifest) -> list[RestorableGeneration]:
    """Those of the last GENERATIONS_LISTED generations that a rollback can restore, newest first.

    The live one is among them, for the case that somebody changed target. So it is not compared with target's columns.
    Another generation from before columns were added is restored from its files: the load keeps these columns, with
    NULL in all rows. A clone of staging as of an earlier time would lack them. Swap `copy` needs the files.
    """
    clones = services.feed.publish.swap is Swap.CLONE
    oldest = _oldest_in_time_travel(services)
    target, restorable = services.warehouse.table(services.feed.target), []
    parent = None if live.parent is None else services.manifests.find(live.parent)
    retained = {manifest.data_folder for manifest in (live, parent) if manifest}
    for manifest in _since_erasure_and_rebuild(services, live):
        is_live = manifest.generation == live.generation
        # Target may have more columns than the live manifest, if the live generation was restored.
        columns = target.columns if target and not is_live else live.table.columns
        added = added_columns(manifest.table.columns, columns)
        if widened_columns(manifest.table.columns, columns):
            continue  # its files, and staging as of that time, have the narrower type
        if refused_table_changes(manifest.table, replace(live.table, columns=columns)):
            continue  # a rollback is no rebuild
        restored_at = None if added or not clones else _clonable_as_of(services, manifest, oldest)
        if is_live and clones and restored_at is None:
            restored_at, manifest = _held_by_staging(services, manifest)
        # BigQuery loads no file that lacks fields of a STRUCT.
        has_files = manifest.data_folder in retained and services.manifests.files_exist(manifest)
        is_loadable = has_files and not any("." in path for path in added)
        # A Spark job reads the files of its parent: target can be exported by day, but not by hour or month.
        by_day, engine = live.table.partition_by is PartitionBy.DAY, services.feed.engine
        needs_files = engine.runs_spark and not by_day and not is_live
        if is_loadable or (restored_at and not needs_files):
            restorable.append(RestorableGeneration(manifest, restored_at, has_files))
    return restorable


def _since_erasure_and_rebuild(services: Services, live: Manifest) -> Iterator[Manifest]:
    """The last generations, newest first, back to the last erasure or rebuild, beyond which no rollback goes."""
    erasure_generation = last_erasure_generation(services, live.generation)
    for generation in reversed(services.manifests.generations()[-GENERATIONS_LISTED:]):
        if generation < erasure_generation:
            return
        manifest = services.manifests.read(generation)
        yield manifest
        if manifest.kind is Kind.REBUILD:
            return


def _oldest_in_time_travel(services: Services) -> datetime | None:
    """The earliest time as of which staging can be cloned; None if staging does not exist."""
    staging = services.warehouse.table(services.feed.staging)
    if staging is None:
        return None
    window = services.warehouse.time_travel_window() - TIME_TRAVEL_MARGIN
    return max(services.now() - window, staging.created_at)


def _clonable_as_of(services: Services, manifest: Manifest, oldest: datetime | None) -> datetime | None:
    """A time when staging held exactly this generation; None if none is recorded or time travel does not reach it."""
    swap = find_swap(services, manifest.attempt)
    return swap.checked_at if swap and oldest and swap.checked_at > oldest else None


def _held_by_staging(services: Services, live: Manifest) -> tuple[datetime | None, Manifest]:
    """The present time if staging still holds the live generation unchanged; None if it does not, or if nobody knows.

    So the generation can be restored even when time travel does not reach its swap any more. Also returns its manifest,
    without the rows that have expired in staging: since then the retention may have been raised.
    """
    staging, swap = services.current.read().staging, find_swap(services, live.attempt)
    if swap is None or staging is None or staging.holds != live.digest:
        return None, live
    if services.warehouse.table(services.feed.staging) is None:
        return None, live
    seen = services.warehouse.observe(services.names, services.feed.staging)
    results = check_rows("staging_rows", live, seen), check_staging_unchanged(seen, swap.checked_at)
    if any(result.level is not Level.PASS for result in results):
        return None, live
    return seen.observed_at, without_expired(live, seen, {entry.date for entry in live.dates})


def _restored_manifest(
    services: Services, restorable: RestorableGeneration, attempt: Attempt, live: Manifest
) -> Manifest:
    """The new generation's manifest: the content of the restored one. `live`: the generation that is live."""
    source, has_files = restorable.manifest, restorable.has_files
    staging = services.warehouse.table(services.feed.staging)
    days = staging.expiration_days if staging else None  # a rollback does not change it
    return replace(
        source,
        kind=attempt.kind,
        table=replace(source.table, retention_days=round(days) if days else source.table.retention_days),
        generation=attempt.generation,
        parent=attempt.parent,
        restores=source.generation,
        data_folder=source.data_folder if has_files else None,
        file_list_digest=source.file_list_digest if has_files else "",
        excluded=_excluded_after(services, live, source),
        applied=(),
        code_version=dedup_clone.__version__,
        run_id=attempt.run_id,
        attempt=attempt.id,
        created_at=services.now(),
        dropped_rows=0,
        dates=tuple(
            replace(
                entry,
                new_keys=0,
                changed=None,
                ties=0,
                plan=DateOutcome.RESTORED,
                plan_reason=f"content of generation {source.generation}",
            )
            for entry in source.dates
        ),
    )


def _candidate(services: Services, source: Manifest, manifest: Manifest) -> Candidate:
    """The candidate with the new generation's `manifest`, and with the files of `source` if they still exist."""
    store, layout = services.store, services.layout
    files = services.manifests.committed_files(source.generation)
    file_list_uri = load_uris_uri = None
    if files is not None and manifest.data_folder is not None:
        file_list_uri = store.uri(layout.file_list(source.generation))
        uris = f"{layout.attempt_folder(manifest.attempt)}uris.txt"
        store.put(uris, "".join(f"{manifest.data_folder}{file.path}\n" for file in files.files))
        load_uris_uri = store.uri(uris)
    return Candidate(manifest, file_list_uri, load_uris_uri)
