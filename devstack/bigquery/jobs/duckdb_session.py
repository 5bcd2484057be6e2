"""One in-memory DuckDB connection of a job: bounded memory, no extensions from the network, no files but segments."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa

from devstack.bigquery.errors import StandInError, StoppedJob
from devstack.bigquery.sql.transpile import error_of_duckdb
from devstack.bigquery.sql.types import TableField, field_from_duckdb
from devstack.bigquery.storage.arrow_schema import conform

MEMORY_LIMIT = "1GB"
THREADS = "2"


class DuckDbSession:
    """Not for use by several threads, except `interrupt`."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY_LIMIT,
                "threads": THREADS,
                "autoload_known_extensions": "false",
                "autoinstall_known_extensions": "false",
                "allow_community_extensions": "false",
            },
        )
        # The extension is part of the package; the setting exists only after it is loaded.
        self._connection.execute("LOAD icu")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._registered = 0

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        self._connection.interrupt()

    def register(self, rows: pa.Table) -> str:
        """The name under which SQL finds the rows."""
        self._registered += 1
        name = f"_rows_{self._registered}"
        self._connection.register(name, rows)
        return name

    def schema(self, sql: str) -> tuple[TableField, ...]:
        """The result's columns; nothing is run."""
        relation = self._relation(sql)
        return tuple(field_from_duckdb(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True))

    def run(self, sql: str) -> tuple[tuple[TableField, ...], pa.Table]:
        """Columns and rows of a SELECT, the rows in the form in which segments keep them."""
        columns = self.schema(sql)
        try:
            rows = self._relation(sql).to_arrow_table()
        except duckdb.Error as error:
            raise self._translated(error) from error
        positional = tuple(TableField(f"c{i}", c.type, c.mode, c.fields) for i, c in enumerate(columns))
        conformed = conform(rows.rename_columns([column.name for column in positional]), positional)
        return columns, conformed.rename_columns([column.name for column in columns])

    def _relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        try:
            return self._connection.sql(sql)
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: duckdb.Error) -> StandInError:
        if self._stop.is_set():
            return StoppedJob("Job execution was cancelled: User requested cancellation")
        return error_of_duckdb(error)
