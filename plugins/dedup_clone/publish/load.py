"""Load task: loads the files of the new generation into staging.

Usually one load job replaces the whole table. In update id mode `last_changed` most dates do not change between
publishes; then only the partitions whose files differ are loaded.

During a load CURRENT says that nobody knows what staging holds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from dedup_clone.checks.partition_checks import has_expired
from dedup_clone.contract.attempt import MAX_TABLE_FILES, URIS_PER_JOB, Attempt, Kind
from dedup_clone.contract.errors import CheckFailed, ContractViolation
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.schema_change import added_columns
from dedup_clone.contract.table import PartitionBy, UpdateIdMode
from dedup_clone.publish.attempt_jobs import LOAD_STEP, SWAP_STEP, URI_LIST, attempt_job_id, load_configuration
from dedup_clone.publish.declared_form import drop_staging, prepare_staging, set_layout_of_staging
from dedup_clone.publish.early_checks import require_policies_of_staging
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Staging

# If more than this share of the dates changed, one job for the whole table is faster than one job for each date. Both
# ways are free.
MAX_SHARE_OF_DATES = 0.5
# BigQuery allows 50 modifications of a partitioned table in 10 seconds. A load counts when it ends, not when it starts.
# So after each LOADS_AT_ONCE loads have ended, the task waits for LIMIT_WINDOW_S before it starts the next.
LOADS_AT_ONCE = 45
LIMIT_WINDOW_S = 10


def read_candidate(services: Services, attempt: str) -> tuple[Candidate, Manifest]:
    """Return the attempt's candidate, and its manifest. Raises ContractViolation if one of them is absent."""
    candidate = services.manifests.candidate(attempt)
    if candidate is None or candidate.manifest is None:
        raise ContractViolation(f"Attempt [{attempt}] has no manifest to publish: clear the run from its first task.")
    return candidate, candidate.manifest


def prepare_load(services: Services, attempt: Attempt) -> None:
    """A rebuild, whose rows the dedup job has accepted, gives staging the declared columns now."""
    if attempt.kind is Kind.REBUILD:
        set_layout_of_staging(services, attempt.id)


def table_load_configuration(
    services: Services, candidate: Candidate, manifest: Manifest, step: str = LOAD_STEP
) -> dict[str, Any]:
    """The configuration of one load job for all of staging, to which it also adds new columns. SWAP_STEP: for target.

    Raises CheckFailed if there are more files than `MAX_TABLE_FILES`.
    """
    files = services.manifests.candidate_files(candidate)
    if files is not None and len(files.files) > MAX_TABLE_FILES:
        raise CheckFailed(
            f"The generation has [{len(files.files)}] files, expected at most [{MAX_TABLE_FILES}]: replay the snapshot "
            f"with plan [rewrite], which writes few, and ask the producer for larger files."
        )
    uris = [str(candidate.load_uris_uri)]
    options: dict[str, Any] = dict(URI_LIST)
    name = services.feed.target if step == SWAP_STEP else services.feed.staging
    table = services.warehouse.table(name)
    if table is not None and added_columns(table.columns, manifest.table.columns):
        options["schemaUpdateOptions"] = ["ALLOW_FIELD_ADDITION"]
    return load_configuration(services, step, uris, name, manifest.table.columns, **options)


def dates_to_load(services: Services, candidate: Candidate, manifest: Manifest) -> tuple[date, ...] | None:
    """The dates whose files differ from those in staging; None when the whole table is to be loaded.

    The whole table is loaded when staging's contents are unknown or have other columns, when most dates changed, when
    the new generation lacks a date that staging has within the retention, when a date has too many files for the
    configuration of one load job, if partitions are not days, and in update id mode `last_seen`.
    """
    if manifest.update_id_mode is not UpdateIdMode.LAST_CHANGED or candidate.file_list_uri is None:
        return None
    if manifest.table.partition_by is not PartitionBy.DAY:
        return None
    loaded = _manifest_in_staging(services)
    if loaded is None or loaded.table.columns != manifest.table.columns:
        return None
    days, now = loaded.table.retention_days, services.now()  # a date that has expired may be gone from staging
    digests = {e.date: e.files_digest for e in loaded.dates if not has_expired(e.date, days, now)}
    changed = tuple(e.date for e in manifest.dates if not e.files_digest or digests.get(e.date) != e.files_digest)
    removed = digests.keys() - {e.date for e in manifest.dates}
    files = services.manifests.candidate_files(candidate)
    counts = Counter(file.date for file in files.files) if files else Counter[date]()
    has_too_many_dates = len(changed) > MAX_SHARE_OF_DATES * len(manifest.dates)
    has_too_many_files = any(counts[day] > URIS_PER_JOB for day in changed)
    lacks_retained_date = any(day >= manifest.retention_day for day in removed)
    return None if has_too_many_dates or has_too_many_files or lacks_retained_date else changed


def load_dates(
    services: Services,
    attempt: Attempt,
    candidate: Candidate,
    manifest: Manifest,
    dates: tuple[date, ...],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Load these dates, each by a load job of its own, as many at once as BigQuery allows.

    Raises JobFailed, and what `begin_load` raises. If the task dies, nobody knows what staging holds, and the retry
    loads the whole table.
    """
    files = services.manifests.candidate_files(candidate)
    uris: dict[date, list[str]] = {day: [] for day in dates}
    for file in files.files if files else ():
        if file.date in uris:
            uris[file.date].append(f"{manifest.data_folder}{file.path}")
    configurations = {
        attempt_job_id(attempt.feed, attempt.id, f"{LOAD_STEP}_{day:%Y%m%d}", 1): load_configuration(
            services, LOAD_STEP, date_uris, f"{services.names.staging_table}${day:%Y%m%d}", manifest.table.columns
        )
        for day, date_uris in uris.items()
    }
    begin_load(services, attempt, configurations)
    job_ids = list(configurations)
    for first in range(0, len(job_ids), LOADS_AT_ONCE):
        if first:
            sleep(LIMIT_WINDOW_S)
        batch = job_ids[first : first + LOADS_AT_ONCE]
        for job_id in batch:
            services.warehouse.jobs.start(job_id, configurations[job_id])
        for job_id in batch:
            services.warehouse.wait_for_job(job_id, poll_s=services.job_poll_s)
    services.log(
        f"loaded {len(dates)} of {len(manifest.dates)} partitions; the others are in staging already",
        snapshot_id=attempt.snapshot_id,
        generation=attempt.generation,
    )
    finish_load(services, attempt, manifest)


def begin_load(services: Services, attempt: Attempt, job_ids: Iterable[str]) -> None:
    """Wait until every earlier job of the attempt has ended, then record these jobs, and that staging is unknown.

    If changes were streamed into staging and their load did not finish, staging is made anew, because BigQuery may
    still apply them. Raises CheckFailed if staging lacks a declared policy, LostRace when the attempt has lost the
    lease.
    """
    require_policies_of_staging(services)
    intent = services.current.require_intent(attempt.id)
    services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    staging = services.current.read().staging
    if staging is not None and staging.writer:
        _replace_staging(services, attempt.id)
    services.current.record_jobs(attempt.id, job_ids, Staging(attempt.id))


def _replace_staging(services: Services, attempt: str) -> None:
    """Drop and create staging. Set the primary key and `max_staleness` of engine `cdc`, which clones of it inherit."""
    services.log("makes staging anew: BigQuery may still apply changes that an earlier attempt streamed into it")
    drop_staging(services, attempt)
    prepare_staging(services)
    feed = services.feed
    services.warehouse.alterations.prepare_for_changes(feed.staging, feed.table.keys, feed.cdc.max_staleness_minutes)


def finish_load(services: Services, attempt: Attempt, manifest: Manifest) -> None:
    """Record that staging holds the manifest's rows, after the load succeeded. `check_staging` verifies the rows.

    Raises LostRace when the attempt has lost the lease.
    """
    services.current.record_staging(Staging(attempt.id, manifest.digest))
    services.log(
        f"staging table {services.names.staging_table} holds {manifest.rows} rows in {len(manifest.dates)} partitions",
        snapshot_id=attempt.snapshot_id,
        generation=attempt.generation,
    )


def _manifest_in_staging(services: Services) -> Manifest | None:
    """The manifest of the rows that staging holds; None if nobody knows, or the manifest is lost."""
    staging = services.current.read().staging
    candidate = services.manifests.candidate(staging.attempt) if staging and staging.holds else None
    manifest = candidate.manifest if candidate else None
    return manifest if manifest and staging and manifest.digest == staging.holds else None
