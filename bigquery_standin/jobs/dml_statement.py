"""Finds the DML statement of a query job."""

from __future__ import annotations

from bigquery_standin.bigquery_errors import StandInError
from bigquery_standin.jobs.job_store import JobRecord
from bigquery_standin.jobs.name_defaults import NameDefaults
from bigquery_standin.sql.script_parser import parse_shared_script
from bigquery_standin.sql.statements import Insert, MutatingStatement
from bigquery_standin.storage.model import TableId

DmlStatement = MutatingStatement | Insert


def defaults_of(record: JobRecord) -> NameDefaults:
    default = record.configuration["query"].get("defaultDataset") or {}
    return NameDefaults(record.project, default.get("datasetId"), default.get("projectId"), record.location)


def dml_statement(record: JobRecord) -> tuple[DmlStatement, TableId] | None:
    """The statement and its table, if the job runs nothing but one INSERT, UPDATE, DELETE or MERGE; otherwise None."""
    if record.kind != "query":
        return None
    try:
        statements = parse_shared_script(record.configuration["query"]["query"]).statements
        if len(statements) == 1 and isinstance(statements[0], DmlStatement):
            return statements[0], defaults_of(record).table(statements[0].table)
    except StandInError:
        return None  # the job will fail with this error when it runs
    return None
