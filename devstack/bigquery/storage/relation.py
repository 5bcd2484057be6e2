"""A table version as a DuckDB relation over its segments."""

from __future__ import annotations

from devstack.bigquery.errors import Invalid
from devstack.bigquery.sql.types import quoted, to_duckdb_type
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.segments import SegmentStore

# A row's place in a version, by which it can be found again. No BigQuery column can have this name.
ROW = '"__row"'
_FILE = 1 << 40  # a place is a segment's number times this, plus the row's number in the segment


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def relation_sql(
    table_id: TableId,
    version: TableVersion,
    segments: SegmentStore,
    *,
    partition: str | None = None,
    identity: bool = False,
) -> str:
    """A parenthesised SELECT with the declared columns in order, each cast to its declared type.

    `partition` is the id of the only one to read. `identity` adds ROW.
    """
    schema = version.settings.schema
    if not schema:
        raise Invalid(f"Table {table_id} does not have a schema.")
    parts = version.segments() if partition is None else version.partitions[partition].segments
    files = [quote_text(str(segments.path(segment))) for segment in parts]
    if not files:
        empty = ", ".join(f"CAST(NULL AS {to_duckdb_type(column)}) AS {quoted(column.name)}" for column in schema)
        return f"(SELECT {empty}{f', CAST(NULL AS BIGINT) AS {ROW}' if identity else ''} WHERE false)"
    columns = ", ".join(
        f"CAST({quoted(column.name)} AS {to_duckdb_type(column)}) AS {quoted(column.name)}" for column in schema
    )
    listed, place, virtual = f"[{', '.join(files)}]", "", ""
    if identity:
        first = 0 if partition is None else segment_numbers(version)[partition].start
        number = f"(list_position({listed}, filename) + {first - 1})"
        place = f", CAST({number} * {_FILE} + file_row_number AS BIGINT) AS {ROW}"
        virtual = ", filename = true, file_row_number = true"
    return f"(SELECT {columns}{place} FROM read_parquet({listed}, hive_partitioning = false{virtual}))"


def segment_numbers(version: TableVersion) -> dict[str, range]:
    """The numbers, in `version.segments()`, of each partition's segments."""
    numbers, first = {}, 0
    for key in sorted(version.partitions):
        count = len(version.partitions[key].segments)
        numbers[key] = range(first, first + count)
        first += count
    return numbers


def segment_number(row: str) -> str:
    """SQL of the number of a row's segment; `row` is SQL of its place."""
    return f"({row} // {_FILE})"


def rows_of(numbers: range, row: str) -> str:
    """SQL of whether a place lies in these segments."""
    return f"({row} >= {numbers.start * _FILE} AND {row} < {numbers.stop * _FILE})"
