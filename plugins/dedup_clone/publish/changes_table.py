"""Loads the rows by which a generation differs from its parent into the table `FEED_changes`, after the commit.

Before CURRENT is written, the list of the files to load is stored in state. The commit task then tries the load; what
it could not load, later commit tasks and the watchdog try again, with numbered jobs as for the ledger table
(reporting.py). So the rows of a generation are loaded once, even if a writer dies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from dedup_clone.contract.errors import ContractViolation, JobFailed
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.schema_change import refused_column_changes, widened_columns
from dedup_clone.contract.table import (
    CHANGE_TYPE,
    GENERATION,
    NEW_ROW,
    OLD_ROW,
    PUBLISH_DATE,
    SNAPSHOT_ID,
    Column,
    TableContract,
    changes_table_contract,
)
from dedup_clone.publish.attempt_jobs import (
    URI_LIST,
    find_job,
    load_configuration,
    query_configuration,
    run_step_job,
)
from dedup_clone.publish.attempts import best_effort
from dedup_clone.publish.declared_form import drop_once
from dedup_clone.publish.reporting import LEDGER_TABLE, is_due, stop_load, wait_for_load
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.layout import generation_of
from dedup_clone.state.ledger import CHANGES, ReportingBacklog, WaitingRows
from dedup_clone.warehouse.table_options import KMS_KEY

STEP = "changes"
_SQL_FILE = "reporting/forget_changes.sql"
# Changes that could not be loaded for so long are lost, so that later ones need not wait for them for ever.
_LOST_AFTER = timedelta(days=7)
_COLUMNS = {
    PUBLISH_DATE: "UTC day on which the publish began; the table's partitions",
    GENERATION: "the generation of the table that has the new row; dedup_clone_ledger says since when readers see it",
    SNAPSHOT_ID: "id of the newest snapshot in that generation",
    CHANGE_TYPE: "new, changed, missing (the newest snapshot lacks the key; its row stays), returned or deleted",
    OLD_ROW: "the row of the key in the generation before; NULL for a new key",
    NEW_ROW: "the row of the key in this generation; NULL for a deleted key",
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
        uris = "".join(f"{services.store.uri(folder)}{file.path}\n" for file in files)
        ReportingBacklog(services.store, CHANGES).add(services.feed.feed, intent.attempt, uris)
    return rows


def try_load_changes(services: Services) -> None:
    """Call `load_changes`. A failure is logged and never raised."""
    with best_effort(services, f"[{services.names.changes_table}] lacks changes until a later publish or watchdog run"):
        load_changes(services)


def load_changes(services: Services) -> None:
    """Load what `FEED_changes` lacks, oldest generation first. A later call tries again what could not be loaded.

    If the load of a generation fails, later generations wait, because readers apply changes in order. Changes that
    cannot be loaded are deleted. Raises TimeoutError when a load job does not end in time.
    """
    backlog = ReportingBacklog(services.store, CHANGES)
    pending = backlog.waiting(services.feed.feed)
    is_hidden = bool(pending) and _has_policies(services)
    if is_hidden and services.feed.changes:
        services.log(
            f"loads no changes: [{services.names.changes_table}] would show what policies of [{services.feed.target}] "
            f"hide; remove [changes] from the feed file",
            level=logging.WARNING,
        )
        return
    for changes in pending:
        problem = "policies of target hide them" if is_hidden else _problem(services, changes)
        if problem:
            generation = _generation(changes)
            services.log(f"deletes changes that were not loaded: {problem}", generation=generation)
            forget_change_rows(services, changes.attempt, last=generation)
        elif not _load(services, changes):
            return
        backlog.remove(changes.feed, changes.attempt)
        services.store.delete_prefix(services.layout.changes_folder(changes.attempt))


def forget_change_rows(services: Services, attempt: str, *, last: int) -> None:
    """Set `change_rows` to NULL for generation `last` and all earlier ones of the feed: rows are lost for good.

    So nobody who follows `FEED_changes` waits for them. `attempt`: names the query's job. Rows that the ledger table
    lacks are corrected before they are loaded. Safe to repeat. Raises JobFailed, TimeoutError when a load of the ledger
    table does not end, and OutcomeUnknown as `find_step_job` does.
    """
    backlog = ReportingBacklog(services.store)
    for waiting in backlog.waiting(services.feed.feed):
        if _generation(waiting) <= last:
            backlog.forget_change_rows(waiting.feed, waiting.attempt)
            stop_load(services, waiting.feed, waiting.attempt)
    if services.warehouse.table(LEDGER_TABLE) is None:
        return
    step = f"lost_changes_{last}"
    sql = services.warehouse.render(_SQL_FILE, names=services.names, table=services.feed.table.to_contract())
    parameters = {"feed": ("STRING", services.feed.feed), "last": ("INT64", str(last))}
    query = query_configuration(services, step, sql, parameters)
    run_step_job(services, attempt, step, lambda: query, is_recorded=False)


def _generation(waiting: WaitingRows) -> int:
    return generation_of(waiting.attempt) or 0


def _problem(services: Services, changes: WaitingRows) -> str:
    """Why the changes are lost; empty if they can be loaded."""
    longest = min(_LOST_AFTER, timedelta(days=services.feed.changes_days))
    if services.now() - changes.since > longest:
        return f"they could not be loaded for {longest.days} days"
    return "" if services.manifests.find(_generation(changes)) else "the manifest of their generation is lost"


def _load(services: Services, changes: WaitingRows) -> bool:
    """Load the changes of one generation; return whether the table has them. Raises TimeoutError.

    The table gets the columns of the changes' generation, which the files have. The feed file may declare other columns
    by now.
    """
    job = find_job(services, changes.feed, changes.attempt, STEP)
    if not is_due(services, job):
        return False
    if job.metadata is None:
        table = services.manifests.read(_generation(changes)).table
        _drop_table_of_other_columns(services, changes, table)
        prepare_changes_table(services, table)
        services.warehouse.jobs.start(job.job_id, _configuration(services, changes, table))
    try:
        wait_for_load(services, job, services.names.changes_table)
    except JobFailed as error:
        services.log(str(error), generation=_generation(changes), level=logging.WARNING)
        return False
    return True


def _has_policies(services: Services) -> bool:
    """Whether target has policies. They were made by hand: a feed that declares policies cannot have `changes`."""
    found = services.warehouse.policies(services.feed.target)
    return bool(found.row_access or found.column_tags)


def _configuration(services: Services, changes: WaitingRows, feed_table: TableContract) -> dict[str, Any]:
    options: dict[str, Any] = {
        **URI_LIST,
        "writeDisposition": "WRITE_APPEND",
        "schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"],
    }
    table = _declared_table(services, feed_table)
    uris = [services.store.uri(ReportingBacklog(services.store, CHANGES).name(changes.feed, changes.attempt))]
    return load_configuration(services, STEP, uris, services.names.changes_table, table.columns, **options)


def _drop_table_of_other_columns(services: Services, changes: WaitingRows, feed_table: TableContract) -> None:
    """Drop `FEED_changes` if its columns have other types than those of `feed_table`, or if it has more columns.

    The load could not append to it.
    """
    if change_rows_to_lose(services, feed_table) is not None:
        name = services.names.changes_table
        services.log(
            f"makes [{name}] anew: columns of the feed have another name or type by now", level=logging.WARNING
        )
        forget_change_rows(services, changes.attempt, last=_generation(changes) - 1)
        # Two tasks may load these changes. The second drops no rows that were loaded since.
        drop_once(services, changes.attempt, "drop_changes", name)


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
        services.warehouse.create_staging(as_staging, declared, services.feed.table.options)
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
