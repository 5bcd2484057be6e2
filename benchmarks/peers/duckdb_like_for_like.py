"""Does with DuckDB, date by date, the work of plan `adopt`.

The peer validates the landed values, counts new, changed, missing, surviving and surplus rows, and writes the
survivors. Unlike `adopt`, it stores no fingerprints for the next publish, and copies no files.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.input_files import COLUMNS, KEYS, DateFiles, InputFiles
from benchmarks.peer import PeerResult
from benchmarks.peers.date_by_date import DateByDate
from benchmarks.peers.duckdb_connection import COPY_OPTIONS, connect, table_function
from benchmarks.row_counts import RowCounts

_KEYS_SQL = ", ".join(KEYS)
_NULLS_SQL = " + ".join(f"count(*) - count({name})" for name in ("date", *KEYS, "update_id"))


class LikeForLike(DateByDate):
    def run(self, inputs: InputFiles, out: Path) -> RowCounts:
        connection, counts = connect(), RowCounts()
        for date_files in inputs.dates:
            duplicates = _validate(connection, date_files, inputs.snapshot_ids[-1])
            counts += _compare(connection, date_files, duplicates)
            survivors_sql = f"SELECT {', '.join(COLUMNS)} FROM differing WHERE NOT in_new"
            connection.execute(f"COPY ({survivors_sql}) TO '{out}/{date_files.day}.parquet' ({COPY_OPTIONS})")
        return counts

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        assert isinstance(returned, RowCounts)
        return PeerResult(super().result(inputs, out, returned).files, returned)


def _validate(connection: duckdb.DuckDBPyConnection, date_files: DateFiles, snapshot_id: int) -> int:
    """Check every landed row of a date. Returns the number of duplicates, raises ValueError for invalid rows."""
    new_sql = table_function(date_files.snapshot)
    # The sum makes DuckDB decode the values too, because plan `adopt` must know that adopted files can be read.
    row = connection.execute(
        f"SELECT {_NULLS_SQL}, count(*) FILTER (date <> DATE '{date_files.day}' OR update_id <> {snapshot_id}), "
        f"count(*), sum(attr_value) FROM {new_sql}"
    ).fetchone()
    assert row
    if row[0] or row[1]:
        raise ValueError(
            f"Date [{date_files.day}] has [{row[0]}] NULLs and [{row[1]}] rows of another date or snapshot"
        )
    unique = connection.execute(f"SELECT count(*) FROM (SELECT DISTINCT {_KEYS_SQL} FROM {new_sql})").fetchone()
    assert unique
    return int(row[2] - unique[0])


def _compare(connection: duckdb.DuckDBPyConnection, date_files: DateFiles, duplicates: int) -> RowCounts:
    """Write the rows that differ between parent and snapshot into table `differing`, and count them.

    `duplicates`: the number that `_validate` has returned.
    """
    columns_sql = ", ".join(f"old.{name}" for name in ("date", "attr_value", "update_id"))
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE differing AS SELECT {_KEYS_SQL}, {columns_sql}, "
        f"new.update_id IS NOT NULL AS in_new, old.update_id IS NOT NULL AS in_old "
        f"FROM {table_function(date_files.parent)} AS old "
        f"FULL JOIN {table_function(date_files.snapshot)} AS new USING ({_KEYS_SQL}) "
        f"WHERE old.update_id IS NULL OR new.update_id IS NULL OR old.attr_value IS DISTINCT FROM new.attr_value"
    )
    newest_sql = f"(SELECT max(update_id) FROM {table_function(date_files.parent)})"
    row = connection.execute(
        f"SELECT count(*) FILTER (NOT in_old), count(*) FILTER (in_old AND in_new), "
        f"count(*) FILTER (NOT in_new AND update_id = {newest_sql}), count(*) FILTER (NOT in_new) FROM differing"
    ).fetchone()
    assert row
    new, changed, missing, survivors = row
    return RowCounts(new, changed, missing, survivors, duplicates)
