"""A table version as a DuckDB relation over its segments."""

from __future__ import annotations

from devstack.bigquery.errors import Invalid
from devstack.bigquery.sql.types import quoted, to_duckdb_type
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.segments import SegmentStore


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def relation_sql(table_id: TableId, version: TableVersion, segments: SegmentStore) -> str:
    """A parenthesised SELECT with the declared columns in order, each cast to its declared type."""
    schema = version.settings.schema
    if not schema:
        raise Invalid(f"Table {table_id} does not have a schema.")
    files = [quote_text(str(segments.path(segment))) for segment in version.segments()]
    if not files:
        empty = ", ".join(f"CAST(NULL AS {to_duckdb_type(column)}) AS {quoted(column.name)}" for column in schema)
        return f"(SELECT {empty} WHERE false)"
    columns = ", ".join(
        f"CAST({quoted(column.name)} AS {to_duckdb_type(column)}) AS {quoted(column.name)}" for column in schema
    )
    return f"(SELECT {columns} FROM read_parquet([{', '.join(files)}], hive_partitioning = false))"
