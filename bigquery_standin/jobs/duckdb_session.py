"""Gives each job a connection to DuckDB. All jobs of the process share one in-memory database."""

from __future__ import annotations

import threading
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from bigquery_standin.bigquery_errors import InvalidQuery, StandInError, StoppedJob
from bigquery_standin.clock import DAY_MS
from bigquery_standin.sql.field_types import TableField, field_from_duckdb
from bigquery_standin.sql.function_generator import MACROS
from bigquery_standin.sql.literals import translate_duckdb_error
from bigquery_standin.storage.segment_store import conform

# BigQuery's first and last DATE, in days since 1970.
_FIRST_DAY, _LAST_DAY = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
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
    # The setting TimeZone exists only once this extension is loaded, which the package duckdb contains.
    connection.execute("LOAD icu")
    connection.execute(MACROS)
    return connection


class _SharedDuckDb:
    """The process's only DuckDB. To open one for each job would take 25 ms, longer than a small query runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection with its own settings, temporary tables and registered rows."""
        with self._lock:
            if self._root is None:
                self._root = _open()
            return self._root.cursor()


_SHARED_DUCKDB = _SharedDuckDb()


class DuckDbSession:
    """A job's connection. Only one thread may use it, but any thread may call `interrupt`.

    `stop`: is set before `interrupt` is called, so that queries then raise StoppedJob.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._connection = _SHARED_DUCKDB.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._relation_count = 0

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        self._connection.interrupt()

    def register(self, rows: pa.Table) -> str:
        """Registers rows as a relation and returns its name."""
        self._relation_count += 1
        name = f"_rows_{self._relation_count}"
        self._connection.register(name, rows)
        return name

    def materialize(self, sql: str) -> str:
        """Run a SELECT into a temporary table, and return the table's name."""
        self._relation_count += 1
        name = f"_rows_{self._relation_count}"
        try:
            self._connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        except duckdb.Error as error:
            raise self._translated(error) from error
        return name

    def untyped_positions(self, sql: str) -> set[int]:
        """The positions of result columns that are NULL without a type. Such a NULL can be assigned to any type."""
        return {position for position, kind in enumerate(self._relation(sql).types) if str(kind.id) == "null"}

    def schema(self, sql: str) -> tuple[TableField, ...]:
        """The result's columns. The query is not run."""
        return _fields(self._relation(sql))

    def run(self, sql: str) -> tuple[tuple[TableField, ...], pa.Table]:
        """Run a SELECT, or a MERGE with RETURNING. Return its columns, and its rows in Arrow types.

        `arrow_schema` defines these types. Raises the error of `translate_duckdb_error` for a statement that fails,
        StoppedJob if it fails after `stop` was set, and InvalidQuery for a date or time outside of the years 1 to 9999,
        which DuckDB has and BigQuery has not.
        """
        relation = self._relation(sql)
        columns = _fields(relation)
        try:
            rows = relation.to_arrow_table()
        except duckdb.Error as error:
            raise self._translated(error) from error
        # `conform` finds columns by name, and a result may have several columns of one name.
        positional = tuple(TableField(f"c{i}", c.type, c.mode, c.fields) for i, c in enumerate(columns))
        conformed = conform(rows.rename_columns([column.name for column in positional]), positional)
        named = conformed.rename_columns([column.name for column in columns])
        _refuse_other_years(named)
        return columns, named

    def _relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        if self._stop.is_set():  # an interrupt between two statements has no effect
            raise StoppedJob()
        try:
            return self._connection.sql(sql)
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: duckdb.Error) -> StandInError:
        if self._stop.is_set():
            return StoppedJob()
        return translate_duckdb_error(error)


def _refuse_other_years(rows: pa.Table) -> None:
    """Raises InvalidQuery for a date or time outside of BigQuery's range, but not for one in an array or a STRUCT."""
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_date32(values.type):
            numbers, unit = values.cast(pa.int32()), 1
        elif pa.types.is_timestamp(values.type):
            numbers, unit = values.cast(pa.int64()), DAY_MS * 1000
        else:
            continue
        extremes = pc.min_max(numbers).as_py()
        if extremes["min"] is None:
            continue
        if extremes["min"] < _FIRST_DAY * unit or extremes["max"] >= (_LAST_DAY + 1) * unit:
            raise InvalidQuery(f"Column {name} has a date or time outside of the years 1 to 9999, which overflows")


def _fields(relation: duckdb.DuckDBPyRelation) -> tuple[TableField, ...]:
    return tuple(field_from_duckdb(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True))
