"""Loads only the dates that differ from what staging holds: where `update_id` says when a row changed, most do not.

Whatever is not known for certain means the whole table.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.jobs import attempt_job_id, job_labels, table_reference
from dedup_clone.publish.load import begin_load, finish_load
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.state.staging import StagingState

# Above this share one job for the whole table is quicker than one for each date, and just as free.
WORTH_IT_UP_TO = 0.5
STEP = "load"


def dates_to_load(services: Services, candidate: Candidate, manifest: Manifest) -> tuple[date, ...] | None:
    """The dates whose files differ from those that staging holds; None when the whole table is to be loaded."""
    held = _manifest_in_staging(services)
    if manifest.update_id_mode is not UpdateIdMode.LAST_CHANGED or candidate.file_list_uri is None or held is None:
        return None
    digests = {entry.date: entry.files_digest for entry in held.dates}
    changed = tuple(e.date for e in manifest.dates if not e.files_digest or digests.get(e.date) != e.files_digest)
    left = digests.keys() - {e.date for e in manifest.dates}
    if any(day >= manifest.retention_day for day in left) or len(changed) > WORTH_IT_UP_TO * len(manifest.dates):
        return None
    return changed


def load_dates(
    services: Services, order: PublishOrder, candidate: Candidate, manifest: Manifest, dates: tuple[date, ...]
) -> None:
    """One free load job a date, side by side; STAGING says `loading` until all have ended well. Raises JobFailed.

    A task that dies in between leaves `loading` behind, so that its retry loads the whole table.
    """
    begin_load(services, order, manifest)
    files = services.manifests.candidate_files(candidate)
    uris: dict[date, list[str]] = {day: [] for day in dates}
    for file in files.files if files else ():
        if file.date in uris:
            uris[file.date].append(f"{manifest.data_folder}{file.path}")
    configurations = {
        attempt_job_id(order.feed, order.attempt, f"{STEP}_{day:%Y%m%d}", 1): _configuration(services, day, of_day)
        for day, of_day in uris.items()
    }
    services.current.record_jobs(order.attempt, configurations)
    for job_id, configuration in configurations.items():
        services.warehouse.jobs.start(job_id, configuration)
    for job_id in configurations:
        services.warehouse.jobs.wait(job_id, poll_s=services.job_poll_s)
    services.fact(
        f"{len(dates)} of {len(manifest.dates)} partitions differ from what staging held",
        snapshot_id=order.snapshot_id,
        generation=order.generation,
    )
    finish_load(services, order, manifest)


def _manifest_in_staging(services: Services) -> Manifest | None:
    """What STAGING says is loaded, read from the attempt that loaded it."""
    staging = services.staging.read()
    if staging is None or staging.state is not StagingState.LOADED:
        return None
    candidate = services.manifests.candidate(staging.attempt)
    manifest = candidate.manifest if candidate else None
    return manifest if manifest is not None and manifest.digest == staging.manifest_digest else None


def _configuration(services: Services, day: date, uris: list[str]) -> dict[str, Any]:
    return {
        "load": {
            "sourceUris": uris,
            "sourceFormat": "PARQUET",
            "destinationTable": table_reference(services, f"{services.names.staging_table}${day:%Y%m%d}"),
            "createDisposition": "CREATE_NEVER",
            "writeDisposition": "WRITE_TRUNCATE_DATA",
            "parquetOptions": {"enableListInference": True},
        },
        "labels": job_labels(services, STEP),
    }
