"""Loads the rows by which a generation differs from its parent into the table `FEED_changes`, after the commit.

Before CURRENT is written, what is to be loaded is recorded in state. The commit task then tries the load; what it could
not load, later commit tasks and the watchdog try again. A load job's id consists of attempt and number, and a number is
tried only if the jobs of all lower numbers failed. So the rows of a generation are loaded once, even if a writer dies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any

from dedup_clone.contract.changes import (
    CHANGE_TYPE,
    GENERATION,
    NEW_ROW,
    OLD_ROW,
    PUBLISH_DATE,
    SNAPSHOT_ID,
    changes_table_contract,
)
from dedup_clone.contract.errors import ContractViolation, LostRace
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.schema_change import refused_column_changes, widened_columns
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.attempt_jobs import URI_LIST, attempt_job_id, load_configuration
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.publish.records.lost_changes import forget_change_rows
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.pending_changes import URIS, PendingChanges, PendingChangesFolder, StoredPendingChanges
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, BRIEF_TIMEOUT_S
from dedup_clone.warehouse.table_options import KMS_KEY

STEP = "changes"
# Pauses after a failed load job: they double from the first to the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=6)
# Once this many load jobs of a generation have failed, later generations no longer wait for it.
FAILED_JOBS_BEFORE_SKIP = 4
_COLUMNS = {
    PUBLISH_DATE: "UTC day on which the publish began; the table's partitions",
    GENERATION: "the generation of the table that has the new row; dedup_clone_ledger says since when readers see it",
    SNAPSHOT_ID: "id of the newest snapshot in that generation",
    CHANGE_TYPE: "new, changed, missing (the newest snapshot lacks the key; its row stays) or returned",
    OLD_ROW: "the row of the key in the generation before; NULL for a new key",
    NEW_ROW: "the row of the key in this generation",
}


def record_changes(services: Services, intent: Intent, candidate: Candidate) -> int | None:
    """Before the commit, record which files are to be loaded into `FEED_changes`. Safe to repeat.

    Returns the number of their rows; None if the job wrote no changes, if the feed file wants none, or if the list of
    the files is lost.
    """
    if candidate.changes_uri is None or not services.feed.changes:
        return None
    try:
        files = services.manifests.file_list(candidate.changes_uri).files
    except ContractViolation as error:
        services.log(
            f"[{services.names.changes_table}] gets no rows of generation [{intent.generation}]: {error}",
            generation=intent.generation,
            level=logging.WARNING,
        )
        return None
    rows = sum(file.rows for file in files)
    if rows:
        folder = services.layout.changes_folder(intent.attempt)
        uris = f"{folder}{URIS}"
        services.store.put(uris, "".join(f"{services.store.uri(folder)}{file.path}\n" for file in files))
        pending = PendingChanges(intent.attempt, intent.generation, intent.taken_at.astimezone(UTC).date(), uris)
        PendingChangesFolder(services.store, services.feed.feed).add(pending)
    return rows


def try_load_changes(services: Services) -> None:
    """Call `load_changes`. A failure is logged and never raised."""
    with best_effort(services, f"[{services.names.changes_table}] lacks changes until a later publish or watchdog run"):
        load_changes(services)


def load_changes(services: Services) -> None:
    """Load what `FEED_changes` lacks, oldest generation first. A later call tries again what could not be loaded.

    If the load of a generation fails, later generations wait, until FAILED_JOBS_BEFORE_SKIP of its jobs have failed.
    Changes that can never be loaded are deleted. Raises TimeoutError when a load job does not end in time.
    """
    folder = PendingChangesFolder(services.store, services.feed.feed)
    pending = folder.read()
    if pending and _has_policies(services):
        services.log(
            f"loads no changes: [{services.names.changes_table}] would show what policies of [{services.feed.target}] "
            f"hide; remove [changes] from the feed file",
            level=logging.WARNING,
        )
        return
    for stored in pending:
        changes = stored.changes
        problem = _problem(services, changes)
        if problem:
            services.log(f"deletes changes that were not loaded: {problem}", generation=changes.generation)
            forget_change_rows(services, changes.attempt, last=changes.generation)
        else:
            try:
                is_loaded = _load(services, folder, stored)
            except LostRace:
                return  # another writer tries the next job, or an erasure removed the record
            if not is_loaded and changes.job_number < FAILED_JOBS_BEFORE_SKIP:
                return
            if not is_loaded:
                continue
        folder.remove(changes)
        services.store.delete_prefix(services.layout.changes_folder(changes.attempt))


def _problem(services: Services, changes: PendingChanges) -> str:
    """Why the changes can never be loaded; empty if they can."""
    if services.now().date() - changes.publish_day > timedelta(days=services.feed.changes_days):
        return "they are older than [changes_days]"
    manifest = services.manifests.find(changes.generation)
    if manifest is None:
        return "the manifest of their generation is lost"
    # If later generations no longer wait for this one, their load may have made the table anew, with their columns.
    if changes.job_number >= FAILED_JOBS_BEFORE_SKIP:
        table = services.warehouse.table(services.names.changes_table)
        if table is not None and _needs_new_table(table.columns, _declared_table(services, manifest.table).columns):
            return "the table has the columns of a later generation by now"
    return ""


def _load(services: Services, folder: PendingChangesFolder, stored: StoredPendingChanges) -> bool:
    """Load the changes of one generation; return whether the table has them. Raises TimeoutError, LostRace.

    The table gets the columns of the changes' generation, which the files have. The feed file may declare other columns
    by now. After each failure of a job the pause before the next job doubles.
    """
    job_id = changes_job_id(services, stored.changes)
    job = services.warehouse.job(job_id)
    if job is not None and job.error:
        pause = min(FIRST_PAUSE * 2 ** (stored.changes.job_number - 1), LONGEST_PAUSE)
        if job.ended_at is not None and services.now() < job.ended_at + pause:
            return False
        stored = folder.try_next_job(stored)
        job_id, job = changes_job_id(services, stored.changes), None
    if job is None:
        table = services.manifests.read(stored.changes.generation).table
        _drop_table_of_other_columns(services, stored.changes, table)
        prepare_changes_table(services, table)
        services.warehouse.jobs.start(job_id, _configuration(services, stored.changes, table))
    (ended,) = services.warehouse.wait_for_jobs([job_id], poll_s=BRIEF_POLL_S, timeout_s=BRIEF_TIMEOUT_S)
    if ended.error:
        services.log(
            f"BigQuery job [{job_id}] did not load the changes: {ended.error}",
            generation=stored.changes.generation,
            level=logging.WARNING,
        )
    return not ended.error


def _has_policies(services: Services) -> bool:
    """Whether target has policies. They were made by hand: a feed that declares policies cannot have `changes`."""
    found = services.warehouse.policies(services.feed.target)
    return bool(found.row_access or found.column_tags)


def changes_job_id(services: Services, changes: PendingChanges) -> str:
    return attempt_job_id(services.feed.feed, changes.attempt, STEP, changes.job_number)


def _configuration(services: Services, changes: PendingChanges, feed_table: TableContract) -> dict[str, Any]:
    options: dict[str, Any] = {
        **URI_LIST,
        "writeDisposition": "WRITE_APPEND",
        "schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"],
    }
    table = _declared_table(services, feed_table)
    uris = [services.store.uri(changes.uris)]
    return load_configuration(services, STEP, uris, services.names.changes_table, table.columns, **options)


def _drop_table_of_other_columns(services: Services, changes: PendingChanges, feed_table: TableContract) -> None:
    """Drop `FEED_changes` if its columns have other types than those of `feed_table`, or if it has more columns.

    The load could not append to it.
    """
    if change_rows_to_lose(services, feed_table) is not None:
        name = services.names.changes_table
        services.log(
            f"makes [{name}] anew: columns of the feed have another name or type by now", level=logging.WARNING
        )
        forget_change_rows(services, changes.attempt, last=changes.generation - 1)
        services.warehouse.alterations.drop(name)


def prepare_changes_table(services: Services, feed_table: TableContract) -> None:
    """Create `FEED_changes` for the columns of `feed_table`, unless it exists; set expiration and KMS key.

    If the existing table only lacks columns, the load adds them.
    """
    names, days, key = services.names, services.feed.changes_days, services.feed.table.options.kms_key
    declared, name = _declared_table(services, feed_table), names.changes_table
    found = services.warehouse.table(name)
    if found is None:
        # The statement that creates staging creates `FEED_changes` if these names have it in place of staging.
        as_staging = services.warehouse.table_names(name, names.target_table)
        services.warehouse.create_staging(as_staging, declared, services.feed.table.options.to_contract())
        description = f"Rows by which each publish of {names.target_table} differs from the one before."
        services.warehouse.alterations.describe_table(name, description, _COLUMNS)
        return
    if found.expiration_days != days:
        services.warehouse.alterations.set_partition_expiration(name, days)
    if key and found.options.get(KMS_KEY) != key:
        services.warehouse.alterations.set_kms_key(name, key)


def change_rows_to_lose(services: Services, feed_table: TableContract) -> int | None:
    """How many rows `FEED_changes` loses when it is made anew for `feed_table`; None if it stays or does not exist."""
    found = services.warehouse.table(services.names.changes_table)
    declared = _declared_table(services, feed_table)
    return found.rows if found is not None and _needs_new_table(found.columns, declared.columns) else None


def _declared_table(services: Services, feed_table: TableContract) -> TableContract:
    """What `FEED_changes` must be for rows of `feed_table`."""
    return changes_table_contract(feed_table, services.feed.changes_days)


def _needs_new_table(found: Sequence[Column], declared: Sequence[Column]) -> bool:
    """Whether the found table differs by more than columns that a load would add, so that no load can append to it."""
    return bool(refused_column_changes(found, declared) or widened_columns(found, declared))
