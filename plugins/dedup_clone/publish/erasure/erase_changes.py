"""Deletes the rows of erased keys from the table `FEED_changes`, and the files of changes that were not loaded yet."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.erasure import Erasure, KeysToErase
from dedup_clone.publish.attempt_jobs import find_step_job, query_configuration
from dedup_clone.publish.erasure.key_hashes import key_parameters
from dedup_clone.publish.records.changes_table import changes_job_id
from dedup_clone.publish.records.lost_changes import forget_change_rows
from dedup_clone.publish.services import Services
from dedup_clone.state.layout import names_up_to
from dedup_clone.state.pending_changes import PendingChangesFolder

STEP = "erase_changes"
_SQL_FILE = "erasure/delete_changes.sql"


def erase_changes(services: Services, erasure: Erasure, keys: KeysToErase) -> int | None:
    """Delete the keys' rows from `FEED_changes`, and changes from before the erasure that were not loaded yet.

    The ledger table then has no `change_rows` for generations before the erasure. Returns how many rows were deleted;
    None if the feed has no `FEED_changes`. Safe to repeat. Raises what `forget_change_rows` raises.
    """
    drop_pending_changes(services, before=erasure.generation)
    forget_change_rows(services, erasure.attempt, last=erasure.generation - 1)
    if services.warehouse.table(services.names.changes_table) is None:
        return None
    table = replace(services.feed.table.to_contract(), columns=keys.columns)
    sql = services.warehouse.render(_SQL_FILE, names=services.names, table=table)
    job = find_step_job(services, erasure.attempt, STEP)
    services.warehouse.jobs.start(job.job_id, query_configuration(services, STEP, sql, key_parameters(keys)))
    return services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s).changed_rows


def drop_pending_changes(services: Services, *, before: int | None) -> None:
    """Delete the changes of generations below `before` (None: of all) that were not loaded into `FEED_changes` yet.

    The files are deleted first, so that a job that another task starts afterwards fails. Then the function waits for
    the jobs that are loading the files already.
    """
    folder = PendingChangesFolder(services.store, services.feed.feed)
    pending = [s.changes for s in folder.read() if before is None or s.changes.generation < before]
    folders = services.store.folders(services.layout.changes)
    for name in folders if before is None else names_up_to(folders, before - 1):
        services.store.delete_prefix(name)
    for changes in pending:
        next_try = replace(changes, job_number=changes.job_number + 1)
        jobs = [changes_job_id(services, tried) for tried in (changes, next_try)]
        services.warehouse.wait_for_jobs(jobs, poll_s=services.job_poll_s)
        folder.remove(changes)
