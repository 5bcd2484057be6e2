"""Files of a generation that has none: target is exported, date by date, with free extract jobs.

Needed when Spark builds on a generation that SQL made, or on one whose files are gone. The files belong to the attempt
that needs them: they are deleted as that attempt's own data folder is. The jobs change nothing but that folder, so they
are not recorded in CURRENT, where 730 ids would take a quarter of an hour at one change a second; their ids are the
attempt's own all the same, and a step that is tried again uses those that ended well.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from dedup_clone.checks.tables import GENERATION_LABEL
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DataFile, DateEntry, FileList, Manifest
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.request import ParentGeneration
from dedup_clone.publish.jobs import find_step_job, job_labels, table_reference
from dedup_clone.publish.services import Services
from dedup_clone.state.parquet_footer import read_footers
from dedup_clone.state.store import ObjectInfo

PARALLEL_JOBS = 16


def export_generation(services: Services, attempt: str, manifest: Manifest, *, oldest: date) -> ParentGeneration:
    """Export target, which holds `manifest`'s generation, for `attempt`; dates before `oldest` are left out.

    The file list that it names is complete and agrees with the manifest, date by date. Safe to do twice. Raises
    ContractViolation when target holds anything else, JobFailed.
    """
    _require_live(services, manifest)
    folder = export_folder(services, attempt)
    entries = {entry.date: entry for entry in manifest.dates if entry.date >= oldest}
    services.fact(
        f"exports {len(entries)} dates of generation {manifest.generation}, which has no files, to "
        f"[{services.store.uri(folder)}]",
        generation=manifest.generation,
    )
    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        list(pool.map(lambda day: _export_target(services, attempt, folder, day), entries))
    files = _files(services, folder, entries)
    _require_complete(services, files, entries)
    name = f"{services.layout.attempt_folder(attempt)}exported-files.json"
    text = to_json(files)
    services.store.put(name, text)
    return ParentGeneration(
        generation=manifest.generation,
        manifest_uri=services.store.uri(services.layout.manifest(manifest.generation)),
        file_list_uri=services.store.uri(name),
        file_list_digest=digest(text),
        data_uri=services.store.uri(folder),
    )


def export_folder(services: Services, attempt: str) -> str:
    """`feed/data/<attempt>-export/`: pruned by its attempt's generation, as every data folder is."""
    return f"{services.layout.data_folder(attempt).rstrip('/')}-export/"


def _require_live(services: Services, manifest: Manifest) -> None:
    target = services.warehouse.table(services.feed.target)
    live = None if target is None else target.labels.get(GENERATION_LABEL)
    if live != str(manifest.generation):
        raise ContractViolation(
            f"Target [{services.feed.target}] holds generation [{live}], expected [{manifest.generation}], which has "
            f"no files of its own and is to be exported: put its labels right, or roll back to a kept generation."
        )


def export_date(services: Services, attempt: str, day: date, source: dict[str, str], folder: str) -> None:
    """Export one date for `attempt`: `source` names the partition as the REST API does. Raises JobFailed."""
    job = find_step_job(services, attempt, f"export_{day:%Y%m%d}")
    if job.known is None:
        services.warehouse.jobs.start(job.job_id, _configuration(services, source, folder))
    services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)


def _export_target(services: Services, attempt: str, folder: str, day: date) -> None:
    partition = table_reference(services, f"{services.names.target_table}${day:%Y%m%d}")
    export_date(services, attempt, day, partition, f"{folder}date={day}/")


def _configuration(services: Services, source: dict[str, str], folder: str) -> dict[str, Any]:
    return {
        "extract": {
            "sourceTable": source,
            "destinationUris": [services.store.uri(f"{folder}part-*.parquet")],
            "destinationFormat": "PARQUET",
            "compression": "ZSTD",
        },
        "labels": job_labels(services, "export"),
    }


def _files(services: Services, folder: str, entries: dict[date, DateEntry]) -> FileList:
    found = sorted((o for o in services.store.objects(folder) if o.size), key=lambda o: o.name)
    footers = read_footers(services.store, [o.name for o in found])
    broken = [footer for footer in footers if footer.problem]
    if broken:
        raise ContractViolation(
            f"Exported file [{services.store.uri(broken[0].name)}] cannot be read: {broken[0].problem}; "
            f"clear the run from its first task."
        )
    return FileList(
        tuple(_data_file(o, folder, f.rows, entries) for o, f in zip(found, footers, strict=True) if f.rows)
    )


def _data_file(info: ObjectInfo, folder: str, rows: int, entries: dict[date, DateEntry]) -> DataFile:
    path = info.name.removeprefix(folder)
    day = date.fromisoformat(path.split("/")[0].partition("=")[2])
    entry = entries[day]
    return DataFile(path, day, rows, info.size, entry.min_update_id, entry.max_update_id)


def _require_complete(services: Services, files: FileList, entries: dict[date, DateEntry]) -> None:
    rows: Counter[date] = Counter()
    for file in files.files:
        rows[file.date] += file.rows
    wrong = [
        f"{day}: {rows[day]} rows, expected {entry.rows}" for day, entry in entries.items() if rows[day] != entry.rows
    ]
    if wrong:
        raise ContractViolation(
            f"Target [{services.feed.target}] was exported with other rows than its manifest says: "
            f"{'; '.join(wrong[:5])}. Somebody changed target: roll back to a kept generation, or replay its snapshots."
        )
