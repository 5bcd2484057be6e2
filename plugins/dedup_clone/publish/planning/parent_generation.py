"""Makes a dedup request's reference to the parent generation, whichever engine made the parent.

Spark reads the parent's files. If there are none, because an SQL engine made the parent or its files were pruned,
target is exported first. The exported files belong to the attempt that needs them, and are pruned with its data.
"""

from __future__ import annotations

from datetime import date

from dedup_clone.checks.table_checks import labelled_generation
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DataFile, FileList, Manifest
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.request import ParentGeneration
from dedup_clone.publish.attempt_jobs import table_reference
from dedup_clone.publish.planning.partition_export import export_folder, export_partitions, wrong_row_counts
from dedup_clone.publish.services import Services


def parent_reference(
    services: Services, attempt: str, parent: Manifest | None, engine: Engine, *, oldest: date
) -> ParentGeneration | None:
    """Return the reference for a dedup request; None without a parent.

    `oldest`: the first date within the retention; an export leaves out earlier dates. Raises ContractViolation if
    target must be read but does not hold exactly the parent's rows, and JobFailed if an export fails.
    """
    if parent is None:
        return None
    has_files = services.manifests.files_exist(parent)
    if not (engine.runs_spark and has_files):
        require_unmixed_target(services, parent)
    if not engine.runs_spark:  # the SQL engines read target
        manifest_uri = services.store.uri(services.layout.manifest(parent.generation))
        return ParentGeneration(parent.generation, manifest_uri, file_list_uri="", file_list_digest="", data_uri="")
    if has_files:
        return services.manifests.parent(parent.generation)
    return _export_target(services, attempt, parent, oldest=oldest)


def _export_target(services: Services, attempt: str, parent: Manifest, *, oldest: date) -> ParentGeneration:
    """Export target as the parent's files, and write a file list of them. Safe to repeat."""
    _require_live(services, parent)
    folder = export_folder(services, attempt)
    entries = {entry.date: entry for entry in parent.dates if entry.date >= oldest}
    services.log(
        f"exports {len(entries)} dates of generation {parent.generation}, which has no files, to "
        f"[{services.store.uri(folder)}]",
        generation=parent.generation,
    )
    table = table_reference(services, services.names.target_table)
    # Any name of the partition column will do: nothing reads it, because the file list below has the date of each file.
    exported = export_partitions(services, attempt, table, entries, partition_column="date")
    wrong = wrong_row_counts(exported, {day: entry.rows for day, entry in entries.items()})
    if wrong:
        raise ContractViolation(
            f"Target [{services.feed.target}] was exported with other row counts than the live manifest says: "
            f"{'; '.join(wrong[:5])}. Somebody changed target: restore an earlier generation, or replay its snapshots."
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
    name = f"{services.layout.attempt_folder(attempt)}exported-files.json"
    text = to_json(FileList(files))
    services.store.put(name, text)
    return ParentGeneration(
        generation=parent.generation,
        manifest_uri=services.store.uri(services.layout.manifest(parent.generation)),
        file_list_uri=services.store.uri(name),
        file_list_digest=digest(text),
        data_uri=services.store.uri(folder),
    )


def require_unmixed_target(services: Services, parent: Manifest) -> None:
    """Raise ContractViolation if target is mixed: besides `parent`'s rows, it may have rows that were not committed."""
    staging = services.staging.read()
    if staging is not None and staging.target_is_mixed(parent.generation):
        raise ContractViolation(
            f"Target [{services.feed.target}] may hold rows that attempt [{staging.attempt}] streamed into it and did "
            f"not commit, so this run must not read target: replay snapshot [{parent.snapshot_id}] with engine "
            f"[{Engine.SPARK}], which replaces target from the files of generation [{parent.generation}]."
        )


def _require_live(services: Services, manifest: Manifest) -> None:
    live = labelled_generation(services.warehouse.table(services.feed.target))
    if live != str(manifest.generation):
        raise ContractViolation(
            f"Target [{services.feed.target}] holds generation [{live}] according to its labels, expected "
            f"[{manifest.generation}]. Generation [{manifest.generation}] has no files, so its rows can only be read "
            f"from target: correct target's labels, or roll back to an earlier generation."
        )
