"""Writes DuckDB SQL that reads a version of a table from its segments, which are Parquet files.

The number of a segment is its position in `version.queried_segments()`, counted from 0.
"""

from __future__ import annotations

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier, to_duckdb_type
from bigquery_standin.sql.literals import string_literal
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.segment_store import SegmentStore

# The column with the row id, which identifies a row within one version.
ROW_ID = '"__row"'
_FILE = "__file"
# The columns that a read with row ids needs besides those of the table.
_ADDED = (ROW_ID.strip('"'), _FILE, "file_row_number")
_SEGMENT_STRIDE = 1 << 40  # a row id is the segment's number times this, plus the row's number in the segment


def relation_sql(
    table_id: TableId,
    version: TableVersion,
    segments: SegmentStore,
    *,
    numbers: range | None = None,
    with_row_id: bool = False,
) -> str:
    """A SELECT in parentheses that reads the declared columns in their order, each cast to its declared type.

    `numbers`: the numbers of the segments to read; None for all, also those of the streaming buffer. `with_row_id`:
    whether it also selects the column ROW_ID. Raises Invalid for a table without columns, and NotImplementedConstruct
    if it selects ROW_ID and a column of the table has a name in `_ADDED`.
    """
    schema = version.settings.schema
    if not schema:
        raise Invalid(f"Table {table_id} does not have a schema.")
    selected = version.queried_segments()
    first = 0 if numbers is None else numbers.start
    selected = selected if numbers is None else selected[first : numbers.stop]
    files = [string_literal(str(segments.path(segment))) for segment in selected]
    if not files:
        empty = ", ".join(
            f"CAST(NULL AS {to_duckdb_type(column)}) AS {quote_identifier(column.name)}" for column in schema
        )
        return f"(SELECT {empty}{f', CAST(NULL AS BIGINT) AS {ROW_ID}' if with_row_id else ''} WHERE false)"
    columns_sql = ", ".join(
        f"CAST({quote_identifier(column.name)} AS {to_duckdb_type(column)}) AS {quote_identifier(column.name)}"
        for column in schema
    )
    files_sql, row_id_sql, options_sql = f"[{', '.join(files)}]", "", ""
    if with_row_id:
        for column in schema:
            if column.name.lower() in _ADDED:
                raise NotImplementedConstruct(f"DML on a table with a column [{column.name}]")
        number_sql = f"(list_position({files_sql}, {_FILE}) + {first - 1})"  # list_position counts from 1
        row_id_sql = f", CAST({number_sql} * {_SEGMENT_STRIDE} + file_row_number AS BIGINT) AS {ROW_ID}"
        options_sql = f", filename = '{_FILE}', file_row_number = true"
    if version.settings.has_altered_types:  # otherwise all files would be read with the types of the first one
        options_sql += ", union_by_name = true"
    return f"(SELECT {columns_sql}{row_id_sql} FROM read_parquet({files_sql}, hive_partitioning = false{options_sql}))"


def segment_numbers(version: TableVersion) -> dict[str, range]:
    """The numbers of each partition's segments."""
    numbers, first = {}, 0
    for key in sorted(version.partitions):
        count = len(version.partitions[key].segments)
        numbers[key] = range(first, first + count)
        first += count
    return numbers


def segment_number(row_id: str) -> str:
    """SQL that computes the number of a row's segment. `row_id`: SQL that computes the row id."""
    return f"({row_id} // {_SEGMENT_STRIDE})"


def rows_in_segments(numbers: range, row_id: str) -> str:
    """SQL that is true if a row is in one of these segments. `row_id`: SQL that computes the row id."""
    return f"({row_id} >= {numbers.start * _SEGMENT_STRIDE} AND {row_id} < {numbers.stop * _SEGMENT_STRIDE})"
