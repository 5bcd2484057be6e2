"""Runs query jobs: one statement or a script.

The rows of each SELECT are stored in a table. The job's configuration names the table of the last SELECT, or the
table that a CREATE TABLE AS SELECT has made, for the client.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.clock import HOUR_US
from bigquery_standin.jobs.dml_queue import DmlQueue
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.job_configuration import (
    CREATE_DISPOSITIONS,
    WRITE_DISPOSITIONS,
    enum_value,
    table_id_from_api,
)
from bigquery_standin.jobs.job_runner import JobContext
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.parquet_rows import FILE_NAME, ExternalTables, parse_table_definitions
from bigquery_standin.jobs.script_runner import ScriptRunner, dry_run, run_statement
from bigquery_standin.jobs.script_state import ScriptState, dml_statement, parse_parameters
from bigquery_standin.jobs.spark_procedures import SparkSubmit
from bigquery_standin.jobs.statement_run import ResultTable, script_statistics
from bigquery_standin.sql.script_parser import parse_script
from bigquery_standin.sql.statements import Call, Declare, If, Query, Script
from bigquery_standin.storage.access import Caller, Grants
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import DatasetId, TableId
from bigquery_standin.storage.partitions import split_decorator

RESULT_LIFETIME_US = 24 * HOUR_US


class QueryJob:
    """Runs query jobs."""

    def __init__(
        self, catalog: Catalog, objects: ObjectStore, grants: Grants, spark: SparkSubmit, jobs: JobStore
    ) -> None:
        self._catalog = catalog
        self._objects = objects
        self._grants = grants
        self._spark = spark
        self._jobs = jobs
        self._dml_queue = DmlQueue()

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        script = parse_script(context.record.configuration["query"]["query"])
        with context.session() as session, self._state(context.record, session) as state:
            state.check_cancelled = context.check_cancelled
            return (self._run_script if script.is_script else self._run_statement)(context, script, state)

    def admission(self, context: JobContext) -> AbstractContextManager[None]:
        """Keeps a job of one UPDATE, DELETE or MERGE PENDING while it waits in the queue of its table."""
        found = dml_statement(context.record)
        return self._dml_queue.admit(found and found[0], context.record, context.stop)

    def dry_run(self, record: JobRecord) -> Mapping[str, Any]:
        """The statistics that the job would have. The query is not run."""
        script = parse_script(record.configuration["query"]["query"])
        with closing(DuckDbSession(threading.Event())) as session, self._state(record, session) as state:
            return dry_run(script, state)

    def _run_statement(self, context: JobContext, script: Script, state: ScriptState) -> Mapping[str, Any]:
        statement = script.statements[0]
        assert not isinstance(statement, Declare | If | Call)  # those are multi-statement scripts
        result = self._result_table(context.record) if isinstance(statement, Query) else None
        if result is None and context.record.configuration["query"].get("destinationTable"):
            raise InvalidQuery("Cannot set destination table in jobs with DDL or DML statements")
        outcome = run_statement(statement, state, context.record.key, result)
        context.record = context.record.with_destination(outcome.destination)
        return outcome.statistics()

    def _run_script(self, context: JobContext, script: Script, state: ScriptState) -> Mapping[str, Any]:
        if context.record.configuration["query"].get("destinationTable"):
            raise InvalidQuery("configuration.query.destinationTable cannot be set for scripts")
        if context.record.configuration["query"].get("tableDefinitions"):
            raise InvalidQuery("configuration.query.tableDefinitions cannot be set for scripts")
        context.statistics = script_statistics([])
        script_runner = ScriptRunner(context, state, self._anonymous_table, self._dml_queue, self._spark)
        script_runner.run_block(script.statements)
        selects = [outcome for outcome in script_runner.outcomes if outcome.statement_type == "SELECT"]
        if selects:
            context.record = context.record.with_destination(selects[-1].destination)
        return script_statistics(script_runner.outcomes)

    @contextmanager
    def _state(self, record: JobRecord, session: DuckDbSession) -> Iterator[ScriptState]:
        query = record.configuration["query"]
        parameters = parse_parameters(query.get("queryParameters") or (), query.get("parameterMode"))
        definitions = parse_table_definitions(query.get("tableDefinitions") or {})
        with self._catalog.segments.temporary() as write:
            externals = ExternalTables(definitions, self._objects, write, FILE_NAME in query["query"].upper())
            caller = Caller(record.user, self._grants)
            yield ScriptState(self._catalog, session, caller, record, parameters, self._jobs, externals)

    def _result_table(self, record: JobRecord) -> ResultTable:
        query = record.configuration["query"]
        if not query.get("destinationTable"):
            return self._anonymous_table(record)
        table, partition = split_decorator(table_id_from_api(query["destinationTable"]))
        if partition is not None:
            raise NotImplementedConstruct(f"the partition {table.table}${partition} as the destination of a query")
        return ResultTable(
            table,
            enum_value("createDisposition", query.get("createDisposition"), CREATE_DISPOSITIONS, "CREATE_IF_NEEDED"),
            enum_value("writeDisposition", query.get("writeDisposition"), WRITE_DISPOSITIONS, "WRITE_EMPTY"),
        )

    def _anonymous_table(self, record: JobRecord) -> ResultTable:
        """A hidden table for the rows, which expires after a day. Its name derives from the job's key."""
        digest = hashlib.sha1(f"{record.project}/{record.location}".encode(), usedforsecurity=False).hexdigest()
        dataset = DatasetId(record.project, f"_{digest}")
        self._catalog.datasets.ensure_hidden(dataset, record.location)
        name = f"anon{hashlib.sha256(record.key.encode()).hexdigest()}"
        expires_us = self._catalog.clock.now_us() + RESULT_LIFETIME_US
        return ResultTable(TableId(record.project, dataset.dataset, name), expires_us=expires_us)
