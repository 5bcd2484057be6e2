"""Finds the rows of the parent generation for a dedup, whichever engine made the parent.

Spark reads the parent's files. If there are none, because an SQL engine made the parent or its files were pruned,
target is exported first. The exported files belong to the attempt that needs them, and are pruned with its data.

The jobs are not recorded in CURRENT: a recovery waits for recorded jobs because they change staging or target, and
exports change neither. A retried step computes the same job ids and reuses the jobs that succeeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import check_rows, has_expired, may_be_expired, partition_day, roll_back_to
from dedup_clone.contract.attempt import Attempt, ParentFiles
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import DataFile, DateEntry, FileList, Manifest
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.table import PartitionBy, float64_columns
from dedup_clone.publish.attempt_jobs import job_labels, run_step_job, table_reference
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import read_footers
from dedup_clone.state.store import ObjectInfo
from dedup_clone.warehouse.metadata import Observation


def require_live_as_shown(services: Services, live: int | None, shown: int | None) -> None:
    """Raise ConfigurationError if another generation is `live` than was `shown` to the person who approved.

    None: no generation was live.
    """
    if live != shown:
        raise ConfigurationError(
            f"Generation [{live or 'none'}] of [{services.feed.feed}] is live by now, expected [{shown or 'none'}], "
            f"which the preview showed. Nothing was changed: trigger the DAG again to see what it would change now."
        )


def live_manifest(services: Services, operation: str, *, shown: int | None = None) -> Manifest:
    """The live generation's manifest.

    Raises ConfigurationError if none is live, so that there is nothing to `operation`, or another than `shown`, for
    which the operation was approved; and what `CurrentFile.read_for` raises.
    """
    generation = services.current.read_for(services.environment).generation
    if generation is None:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] has no live generation, so there is nothing to {operation}: publish a "
            f"snapshot first."
        )
    if shown is not None:
        require_live_as_shown(services, generation, shown)
    return services.manifests.read(generation)


def parent_files(services: Services, attempt: Attempt, parent: Manifest | None) -> ParentFiles | None:
    """Where the attempt's dedup finds the rows of `parent`, which `require_readable_parent` has checked; None without.

    Raises ContractViolation if target is exported with other row counts, and JobFailed if an export fails.
    """
    if parent is None:
        return None
    manifest_uri = services.store.uri(services.layout.manifest(parent.generation))
    if not attempt.engine.runs_spark:  # the SQL engines read target
        return ParentFiles(manifest_uri)
    if not services.manifests.files_exist(parent) or parent.data_folder is None:
        return _export_target(services, attempt, parent)
    return ParentFiles(
        manifest_uri=manifest_uri,
        file_list_uri=services.store.uri(services.layout.file_list(parent.generation)),
        file_list_digest=parent.file_list_digest,
        data_uri=parent.data_folder,
    )


def parent_in_target(services: Services, attempt: Attempt, parent: Manifest) -> Manifest:
    """`parent` without the rows that BigQuery has deleted although the attempt's retention has them.

    Their dates, or some hours of them, expired before somebody raised the retention, such as the oldest date of the day
    before.
    """
    days, now = parent.table.retention_days, services.now()
    retained = (entry.date for entry in parent.dates_with_rows if entry.date >= attempt.retention_day)
    expired = {day for day in retained if has_expired(day, days, now)}
    if not expired:
        return parent
    return without_expired(parent, services.warehouse.observe(services.names, services.feed.target), expired)


def without_expired(manifest: Manifest, seen: Observation, expired: Collection[date]) -> Manifest:
    """`manifest` without the rows of `expired` dates that a table lacks: all of a date, or those of some hours.

    Dates that had no row stay.
    """
    table, found = manifest.table, Counter[date | None]()
    for partition in seen.partitions:
        found[partition_day(partition)] += partition.rows

    def left(entry: DateEntry) -> int:
        rows = found[table.partition_start(entry.date)]
        return rows if entry.date in expired and may_be_expired(table, rows, entry.rows) else entry.rows

    entries = ((entry, left(entry)) for entry in manifest.dates)
    return replace(manifest, dates=tuple(replace(entry, rows=n) for entry, n in entries if n or not entry.rows))


def unreadable_parent(services: Services, parent: Manifest | None, engine: Engine) -> str | None:
    """Why a publish with `engine` could not read the rows of `parent`; None if it can, and without a parent.

    None also while a run holds the lease, because its recovery may change which rows target has. At most one metadata
    query, if `engine` needs an export of target.
    """
    if parent is None or services.current.read().intent is not None:
        return None
    if engine.runs_spark and services.manifests.files_exist(parent):
        return None
    if engine.runs_spark and parent.table.partition_by is not PartitionBy.DAY:
        return (
            f"Generation [{parent.generation}] of [{services.feed.feed}] has no files, and "
            f"{parent.table.partition_by}s cannot be exported by day: roll back to a generation with files, and replay "
            f"the snapshots since then."
        )
    floats = float64_columns(parent.table.columns)
    if engine.runs_spark and floats:
        return (
            f"Generation [{parent.generation}] of [{services.feed.feed}] has no files, so engine [{engine}] would read "
            f"an export of target, in which FLOAT64 columns [{', '.join(floats)}] lose digits: keep an "
            f"engine in SQL, or roll back to a generation with files and replay the snapshots since then with "
            f"[{engine}]."
        )
    return changed_target(services, parent)


def changed_target(services: Services, live: Manifest) -> str | None:
    """How target's rows differ from the live generation's; None if the numbers are equal, and without a target.

    One metadata query.
    """
    target = services.feed.target
    if services.warehouse.table(target) is None:
        return None
    rows = check_rows("target_rows", live, services.warehouse.observe(services.names, target))
    if rows.level is Level.PASS:
        return None
    return (
        f"Target [{target}] has other rows than generation [{live.generation}]: {rows.found}. Somebody changed target: "
        f"{roll_back_to(live.generation)}. Then clear the run from its first task."
    )


def require_readable_parent(services: Services, parent: Manifest | None, engine: Engine) -> None:
    """Raise ContractViolation for what `unreadable_parent` returns."""
    reason = unreadable_parent(services, parent, engine)
    if reason:
        raise ContractViolation(f"Nothing was published: {reason}")


def _export_target(services: Services, attempt: Attempt, parent: Manifest) -> ParentFiles:
    """Export target's dates within the retention as the parent's files. Write a manifest and a list of them."""
    folder, parent = export_folder(services, attempt.id), parent_in_target(services, attempt, parent)
    entries = {entry.date: entry for entry in parent.dates_with_rows if entry.date >= attempt.retention_day}
    services.log(
        f"exports {len(entries)} dates of generation {parent.generation}, which has no files, to "
        f"[{services.store.uri(folder)}]",
        generation=parent.generation,
    )
    table = table_reference(services, services.names.target_table)
    exported = export_partitions(services, attempt, table, entries)
    wrong = wrong_row_counts(exported, {day: entry.rows for day, entry in entries.items()})
    if wrong:
        raise ContractViolation(
            f"Target [{services.feed.target}] was exported with other row counts than the live manifest says: "
            f"{'; '.join(wrong[:5])}. Somebody changed target: {roll_back_to(parent.generation)}."
        )
    files = tuple(
        DataFile(
            path=file.info.name.removeprefix(folder),
            date=file.date,
            rows=file.rows,
            size=file.info.size,
            min_update_id=entries[file.date].min_update_id,
            max_update_id=entries[file.date].max_update_id,
        )
        for file in exported
        if file.rows
    )
    attempt_folder, text = services.layout.attempt_folder(attempt.id), to_json(FileList(files))
    manifest_name, list_name = f"{attempt_folder}exported-manifest.json", f"{attempt_folder}exported-files.json"
    services.store.put(manifest_name, to_json(parent))
    services.store.put(list_name, text)
    return ParentFiles(
        manifest_uri=services.store.uri(manifest_name),
        file_list_uri=services.store.uri(list_name),
        file_list_digest=digest(text),
        data_uri=services.store.uri(folder),
    )


PARALLEL_JOBS = 16  # extract jobs that run at a time


@dataclass(frozen=True)
class ExportedFile:
    """One exported file: its object, the date of its folder, and its rows."""

    info: ObjectInfo
    date: date
    rows: int


def export_folder(services: Services, attempt: str) -> str:
    """Return `feed/data/<attempt>-export/`. It is pruned like a data folder of the attempt's generation."""
    return f"{services.layout.data_folder(attempt).rstrip('/')}-export/"


def export_partitions(
    services: Services, attempt: Attempt, table: Mapping[str, str], dates: Iterable[date]
) -> list[ExportedFile]:
    """Export `dates` of `table` (as the REST API names it) to `<export folder><date folder>=<date>/`.

    Returns the files ordered by name. Raises JobFailed, OutcomeUnknown as `find_step_job` does, and ContractViolation
    when a file cannot be read. The table has no column of type FLOAT64.
    """
    folder, date_folder = export_folder(services, attempt.id), attempt.table.date_folder

    def export(day: date) -> None:
        extract = {
            "sourceTable": {**table, "tableId": f"{table['tableId']}${day:%Y%m%d}"},
            "destinationUris": [services.store.uri(f"{folder}{date_folder}={day}/part-*.parquet")],
            "destinationFormat": "PARQUET",
            "compression": "ZSTD",
        }
        configuration = {"extract": extract, "labels": job_labels(services, "export")}
        run_step_job(services, attempt.id, f"export_{day:%Y%m%d}", lambda: configuration, is_recorded=False)

    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        list(pool.map(export, dates))
    objects = sorted((o for o in services.store.objects(folder) if o.size), key=lambda o: o.name)
    footers = read_footers(services.store, [o.name for o in objects])
    broken = [footer for footer in footers if footer.problem]
    if broken:
        raise ContractViolation(
            f"Exported file [{services.store.uri(broken[0].name)}] cannot be read: {broken[0].problem}; "
            f"clear the run from its first task."
        )
    return [
        ExportedFile(info, _folder_date(info.name.removeprefix(folder)), footer.rows)
        for info, footer in zip(objects, footers, strict=True)
    ]


def wrong_row_counts(files: Iterable[ExportedFile], expected: Mapping[date, int]) -> list[str]:
    """One text for each date of `expected` (its rows by date) whose files have another number of rows."""
    rows: Counter[date] = Counter()
    for file in files:
        rows[file.date] += file.rows
    return [f"{day}: {rows[day]} rows, expected {count}" for day, count in expected.items() if rows[day] != count]


def _folder_date(path: str) -> date:
    """Return 2026-01-31 for `date=2026-01-31/part-0.parquet`."""
    return date.fromisoformat(path.split("/")[0].partition("=")[2])
