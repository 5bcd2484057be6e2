"""The BigQuery job that fills staging (a load job if there are files, else the SQL engine's statement), and its end."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import check_rows
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, DateOutcome, Manifest
from dedup_clone.contract.table import Absent, Column, ColumnMode
from dedup_clone.engines.sql_manifest import date_parameters
from dedup_clone.publish.attempt_jobs import (
    LOAD_STEP,
    REPLACE_STEP,
    find_step_job,
    limited_query_configuration,
    run_step_job,
    table_reference,
)
from dedup_clone.publish.attempts import find_swap
from dedup_clone.publish.load import finish_load, table_load_configuration
from dedup_clone.publish.services import Services

_NOT_WRITTEN = (DateOutcome.COPIED_FORWARD, DateOutcome.UNCHANGED)
# A statement that was PENDING for a shorter time did not wait for other statements.
_MIN_WAIT = timedelta(seconds=1)


def staging_configuration(
    services: Services, attempt: Attempt, candidate: Candidate, manifest: Manifest
) -> dict[str, Any]:
    """The configuration of the job that fills staging with the rows of the manifest's generation.

    Call it before `begin_load` (publish/load.py), which forgets what staging holds. Raises CheckFailed if there are too
    many files to load, or if a dry run says that the statement would read more than the feed's `max_bytes_billed` (of a
    script it cannot say so); ContractViolation if the candidate of engine `spark` or `cdc` names no files.
    """
    if candidate.load_uris_uri is not None:
        return table_load_configuration(services, candidate, manifest)
    if manifest.engine is Engine.BIGQUERY:
        return _deduplicate_configuration(services, attempt, manifest)
    if manifest.engine is Engine.MERGE:
        return _merge_configuration(services, attempt, manifest)
    raise ContractViolation(
        f"Attempt [{attempt.id}] of engine [{manifest.engine}] names no files to load: clear the run from its "
        f"first task."
    )


def finish_staging(services: Services, attempt: Attempt, candidate: Candidate, manifest: Manifest) -> None:
    """Record that staging is loaded, and drop the attempt's incoming table.

    Call it when the job has succeeded. A MERGE that waited until other DML statements on staging had ended may have
    merged into rows that these statements changed. In that case the query of engine `bigquery` first replaces all rows
    of staging. Raises what `run_step_job` raises, and CheckFailed if that query would read more than the feed's
    `max_bytes_billed`.
    """
    if candidate.load_uris_uri is not None:
        finish_load(services, attempt, manifest)
        return
    if manifest.engine is Engine.MERGE and _waited_for_others(services, attempt):
        services.log("other DML statements ran on staging before the MERGE: a SELECT replaces all rows of staging")
        replace_all = partial(_deduplicate_configuration, services, attempt, manifest, REPLACE_STEP)
        run_step_job(services, attempt.id, REPLACE_STEP, replace_all)
    finish_load(services, attempt, manifest)
    services.warehouse.alterations.drop(services.names.of_attempt(attempt.id).incoming_table)


def _deduplicate_configuration(
    services: Services, attempt: Attempt, manifest: Manifest, step: str = LOAD_STEP
) -> dict[str, Any]:
    """The query that replaces all rows of staging; a script if the table has REQUIRED columns.

    `step`: the attempt's step, for the job's label and for errors.
    """
    parameters = {"retention_day": ("DATE", manifest.retention_day.isoformat()), **_date_lists(manifest)}
    if _has_required(manifest.table.columns):  # BigQuery refuses such a table as the destination of a query
        sql = _render(services, attempt, manifest, "bigquery/replace_required", attempt.form)
        return limited_query_configuration(services, step, sql, parameters)
    return limited_query_configuration(
        services,
        step,
        _render(services, attempt, manifest, "bigquery/deduplicate", attempt.form),
        parameters,
        destinationTable=table_reference(services, services.names.staging_table),
        createDisposition="CREATE_NEVER",
        writeDisposition="WRITE_TRUNCATE_DATA",  # keeps policies and constraints, which CREATE OR REPLACE would drop
    )


def _has_required(columns: tuple[Column, ...]) -> bool:
    return any(column.mode is ColumnMode.REQUIRED or _has_required(column.fields) for column in columns)


def _merge_configuration(services: Services, attempt: Attempt, manifest: Manifest) -> dict[str, Any]:
    """A MERGE into staging; if staging may hold other rows than the parent's, the query that replaces all its rows."""
    if attempt.parent is None or change_of_staging(services, services.manifests.read(attempt.parent)):
        return _deduplicate_configuration(services, attempt, manifest)
    delivered = [entry.date for entry in manifest.dates if entry.plan not in _NOT_WRITTEN]
    delivered = delivered or [manifest.retention_day]  # without a delivered date no row is merged: any bounds will do
    parameters = date_parameters(manifest.retention_day, min(delivered), max(delivered)) | _date_lists(manifest)
    sql = _render(services, attempt, manifest, "merge/merge")
    return limited_query_configuration(services, LOAD_STEP, sql, parameters)


def _date_lists(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """The dates that the statement replaces, and those that it keeps; none if it deletes no key."""
    if manifest.table.absent_keys is Absent.KEEP:
        return {}
    kept = [entry.date for entry in manifest.dates if entry.plan in _NOT_WRITTEN]
    replaced = [entry.date for entry in manifest.dates if entry.plan not in _NOT_WRITTEN]
    lists = {"replaced_dates": replaced, "kept_dates": kept}
    return {name: ("ARRAY<DATE>", ",".join(map(str, days))) for name, days in lists.items()}


def change_of_staging(services: Services, parent: Manifest) -> str | None:
    """Why staging may not hold exactly the rows of generation `parent`, as text; None if it does.

    Staging may have been changed since that generation was checked, for example by a late task of a run that was
    recovered as dead.
    """
    recorded, swap = services.current.read().staging, find_swap(services, parent.attempt)
    if recorded is None or recorded.holds != parent.digest:
        return f"staging does not hold generation [{parent.generation}]"
    if swap is None:
        return f"the swap record of generation [{parent.generation}] is missing"
    staging = services.warehouse.observe(services.names, services.feed.staging)
    if check_rows("staging_rows", parent, staging).level is not Level.PASS:
        return f"staging has other rows than generation [{parent.generation}]"
    if any(partition.last_modified_at > swap.checked_at for partition in staging.partitions):
        return f"staging was changed after the checks of generation [{parent.generation}]"
    return None


def _waited_for_others(services: Services, attempt: Attempt) -> bool:
    """Whether a statement of the load's script was PENDING for at least _MIN_WAIT.

    A statement is PENDING while other DML statements change its table.
    """
    job = find_step_job(services, attempt.id, LOAD_STEP).metadata
    statements = services.warehouse.child_jobs(job.job_id) if job is not None else []
    return any(s.created_at and s.started_at and s.started_at - s.created_at >= _MIN_WAIT for s in statements)


def _render(
    services: Services, attempt: Attempt, manifest: Manifest, name: str, form: SqlForm = SqlForm.QUALIFY
) -> str:
    return services.warehouse.render(
        f"engines/{name}.sql",
        names=services.names.of_attempt(attempt.id),
        table=manifest.table,
        has_parent=attempt.parent is not None,
        form=form,
    )
