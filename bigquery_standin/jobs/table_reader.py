"""Provides the tables that one statement reads. Each stays at the same version until the statement ends."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotFound, NotImplementedConstruct
from bigquery_standin.clock import from_datetime
from bigquery_standin.jobs.change_merge import merged_version
from bigquery_standin.jobs.information_schema import jobs_rows, view_rows
from bigquery_standin.jobs.parquet_rows import ExternalTable
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.sql.type_parser import REGIONAL_VIEWS, TableName
from bigquery_standin.sql.value_generator import FILE_NAME
from bigquery_standin.storage.access import check_read, check_time_travel
from bigquery_standin.storage.model import DatasetId, TableId, TableVersion
from bigquery_standin.storage.streamed_rows import needs_runtime_merge
from bigquery_standin.storage.version_relation import ROW_ID, relation_sql, segment_number

VIEW_PREFIX = "INFORMATION_SCHEMA."


class TableReader:
    """The tables that one statement reads."""

    def __init__(self, state: ScriptState) -> None:
        self._state = state
        self.catalog = state.catalog
        self.caller = state.caller
        self._externals = state.externals
        self._session = state.session
        self._views: dict[tuple[DatasetId, str], pa.Table] = {}
        self._versions_read: dict[tuple[TableId, int | None], TableVersion] = {}
        self._times: dict[TableId, exp.Expression | None] = {}
        self._now_us = state.catalog.clock.now_us()
        # The tables whose pending row changes must be merged, with the time as of which each is read.
        self._merging: dict[TableId, int] = {}
        self._merged_versions: dict[TableId, TableVersion] = {}

    @property
    def view_count(self) -> int:
        return len(self._views)

    def resolve(self, name: TableName, system_time: exp.Expression | None) -> str:
        """SQL of the DuckDB relation of a table or INFORMATION_SCHEMA view."""
        if is_information_schema_view(name):
            return self._session.register(self.view(name))
        external = self.external(name)
        if external is not None:
            return self._external_relation(external, system_time)
        table, version = self.version(name, system_time)
        check_read(self.caller, self.catalog, table, version, columns=())  # `scanned_bytes` checks the columns
        if self.merges_changes(table):
            version = self._merged(table, version)
        return relation_sql(table, version, self.catalog.segments)

    def merges_changes(self, table: TableId) -> bool:
        """Whether the statement merges pending row changes into the table's rows."""
        return table in self._merging

    def _merged(self, table: TableId, version: TableVersion) -> TableVersion:
        if table not in self._merged_versions:
            self._merged_versions[table] = merged_version(
                self.catalog, self._session, table, version, self._state.write_temporary, self._merging[table]
            )
        return self._merged_versions[table]

    def external(self, name: TableName) -> ExternalTable | None:
        """The external table of this name; None if the job defines none, or if the name has a dataset."""
        return None if name.dataset is not None else self._externals.open(name.table)

    def _external_relation(self, external: ExternalTable, system_time: exp.Expression | None) -> str:
        if system_time is not None:
            raise InvalidQuery(f"FOR SYSTEM_TIME AS OF cannot be used with external table {external.table.table}")
        if not self._externals.has_file_names:
            return relation_sql(external.table, external.version, self.catalog.segments)
        names = self._session.register(external.file_names())
        relation = relation_sql(external.table, external.version, self.catalog.segments, with_row_id=True)
        condition = segment_number(f'"_rows".{ROW_ID}') + ' = "_files".number'
        return (
            f'(SELECT "_rows".* EXCLUDE ({ROW_ID}), "_files".uri AS "{FILE_NAME}" '
            f'FROM {relation} AS "_rows" LEFT JOIN {names} AS "_files" ON {condition})'
        )

    def view(self, name: TableName) -> pa.Table:
        """The rows of an INFORMATION_SCHEMA view, which are the same for the whole statement."""
        defaults = self._state.defaults
        dataset, view = defaults.dataset_id(name), name.table.removeprefix(VIEW_PREFIX)
        if (dataset, view) not in self._views:
            if view in REGIONAL_VIEWS:
                rows = jobs_rows(self._state.jobs, self.catalog.clock, dataset, defaults.location)
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
        external = self.external(name)
        if external is not None:
            self._versions_read[external.table, None] = external.version
            return external.table, external.version
        table, location = self._state.defaults.table(name), self._state.defaults.location
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
                self._merging[table] = read_us
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
