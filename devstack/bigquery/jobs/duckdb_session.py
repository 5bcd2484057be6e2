"""A job's connection to the in-memory DuckDB of the process: bounded memory, no extensions from the network."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa

from devstack.bigquery.errors import StandInError, StoppedJob
from devstack.bigquery.sql import farm_fingerprint, json_text
from devstack.bigquery.sql.transpile import error_of_duckdb
from devstack.bigquery.sql.types import TableField, field_from_duckdb
from devstack.bigquery.storage.arrow_schema import conform

MEMORY_LIMIT = "2GB"  # of all jobs together
THREADS = "2"


def _open() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
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
    connection.execute("LOAD icu")
    farm_fingerprint.register(connection)
    json_text.register(connection)
    return connection


class _Engine:
    """The one DuckDB of the process: opening one takes 25 ms of CPU time, more than all else in a small query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own: its settings, temporary tables and registered rows are seen by no other."""
        with self._lock:
            if self._root is None:
                self._root = _open()
            return self._root.cursor()


_ENGINE = _Engine()


class DuckDbSession:
    """Not for use by several threads, except `interrupt`."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._connection = _ENGINE.connect()
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

    def materialize(self, sql: str) -> str:
        """Runs a SELECT once; the name of the temporary table that keeps its rows."""
        self._registered += 1
        name = f"_rows_{self._registered}"
        try:
            self._connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        except duckdb.Error as error:
            raise self._translated(error) from error
        return name

    def untyped(self, sql: str) -> set[int]:
        """Positions of the result's columns that are a bare NULL, which has every type."""
        return {position for position, kind in enumerate(self._relation(sql).types) if str(kind.id) == "null"}

    def schema(self, sql: str) -> tuple[TableField, ...]:
        """The result's columns; nothing is run."""
        return _fields(self._relation(sql))

    def run(self, sql: str) -> tuple[tuple[TableField, ...], pa.Table]:
        """Columns and rows of a SELECT, the rows in the form in which segments keep them."""
        relation = self._relation(sql)
        columns = _fields(relation)
        try:
            rows = relation.to_arrow_table()
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


def _fields(relation: duckdb.DuckDBPyRelation) -> tuple[TableField, ...]:
    return tuple(field_from_duckdb(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True))
