"""Provides the tables that one statement reads. Each stays at the same version until the statement ends."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotFound, NotImplementedConstruct
from bigquery_standin.clock import from_datetime
from bigquery_standin.jobs.change_merge import ChangeMerge
from bigquery_standin.jobs.information_schema import jobs_rows, view_rows
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.sql.type_parser import REGIONAL_VIEWS, TableName
from bigquery_standin.storage.access import check_read, check_time_travel
from bigquery_standin.storage.model import DatasetId, TableId, TableVersion
from bigquery_standin.storage.streamed_rows import needs_runtime_merge
from bigquery_standin.storage.version_relation import relation_sql

VIEW_PREFIX = "INFORMATION_SCHEMA."


class TableReader:
    """The tables that one statement reads."""

    def __init__(self, state: ScriptState) -> None:
        self._state = state
        self.catalog = state.catalog
        self.caller = state.caller
        self._session = state.session
        self._views: dict[tuple[DatasetId, str], pa.Table] = {}
        self._versions_read: dict[tuple[TableId, int | None], TableVersion] = {}
        self._times: dict[TableId, exp.Expression | None] = {}
        self._now_us = state.catalog.clock.now_us()
        self._merging: set[TableId] = set()  # the tables whose pending row changes must be merged

    @property
    def view_count(self) -> int:
        return len(self._views)

    def resolve(self, name: TableName, system_time: exp.Expression | None) -> str:
        """SQL of the DuckDB relation of a table or INFORMATION_SCHEMA view."""
        if is_information_schema_view(name):
            return self._session.register(self.view(name))
        table, version = self.version(name, system_time)
        check_read(self.caller, self.catalog, table, version, columns=())  # `scanned_bytes` checks the columns
        if self.merges_changes(table) and version.change_log is not None:
            merge = ChangeMerge(self.catalog, self._session, table, version, version.change_log)
            return merge.rows_sql(with_buffer=True)
        return relation_sql(table, version, self.catalog.segments)

    def merges_changes(self, table: TableId) -> bool:
        """Whether the statement merges pending row changes into the table's rows."""
        return table in self._merging

    def view(self, name: TableName) -> pa.Table:
        """The rows of an INFORMATION_SCHEMA view, which are the same for the whole statement."""
        record = self._state.record
        dataset, view = record.dataset_id(name), name.table.removeprefix(VIEW_PREFIX)
        if (dataset, view) not in self._views:
            if view in REGIONAL_VIEWS:
                rows = jobs_rows(self._state.jobs, self.catalog.clock, dataset, record.location)
            else:
                self._state.check_location(dataset)
                rows = view_rows(self.catalog, dataset, view)
            self._views[dataset, view] = rows
        return self._views[dataset, view]

    def version(self, name: TableName, system_time: exp.Expression | None) -> tuple[TableId, TableVersion]:
        """A table, and the version of it that the whole statement reads.

        Raises NotFound if there is none, InvalidQuery if the statement reads the table at several points in time or at
        one that is no constant, Invalid for a time outside the time travel window, AccessDenied if row access policies
        forbid time travel.
        """
        external = None if name.dataset is not None else self._state.externals.open(name.table)
        if external is not None and system_time is not None:
            raise InvalidQuery(f"FOR SYSTEM_TIME AS OF cannot be used with external table {name.table}")
        if external is not None:
            return TableId("", "", name.table), external
        table, location = self._state.record.table(name), self._state.record.location
        self._state.check_location(table.dataset_id)
        if self._times.setdefault(table, system_time) != system_time:
            raise InvalidQuery(f"Table {table} is read at several points in time, expected one in a statement")
        moment_us = None if system_time is None else self.moment_us(system_time)
        key = (table, moment_us)
        if key not in self._versions_read:
            try:
                self._versions_read[key] = self.catalog.read(table, moment_us)
            except NotFound as error:
                raise NotFound(f"Not found: Table {table} was not found in location {location}") from error
            read_us = self._now_us if moment_us is None else moment_us
            if needs_runtime_merge(self._versions_read[key], read_us):
                self._merging.add(table)
            if self._versions_read[key].settings.view is not None:
                raise NotImplementedConstruct(f"view {table} in anything but a SELECT statement")
            if moment_us is not None:
                check_time_travel(self.caller, self.catalog, table, self._versions_read[key])
        return table, self._versions_read[key]

    def moment_us(self, system_time: exp.Expression) -> int:
        """The time in FOR SYSTEM_TIME AS OF. Raises InvalidQuery unless it is a constant TIMESTAMP."""
        moment = self._state.constant_value(system_time)
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InvalidQuery(
                f"FOR SYSTEM_TIME AS OF is [{system_time.sql('bigquery')}], expected a constant TIMESTAMP expression"
            )
        return from_datetime(moment)


def is_information_schema_view(name: TableName) -> bool:
    return name.table.upper().startswith(VIEW_PREFIX)
