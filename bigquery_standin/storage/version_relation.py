"""Writes DuckDB SQL that reads a version of a table from its segments, which are Parquet files."""

from __future__ import annotations

from collections.abc import Sequence

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.sql.field_types import quote_identifier, to_duckdb_type
from bigquery_standin.sql.literals import string_literal
from bigquery_standin.storage.model import Segment, TableId, TableVersion
from bigquery_standin.storage.segment_store import SegmentStore


def relation_sql(
    table_id: TableId, version: TableVersion, store: SegmentStore, segments: Sequence[Segment] | None = None
) -> str:
    """A SELECT in parentheses that reads the declared columns in their order, each cast to its declared type.

    `segments`: those to read; None for all that a query reads. Raises Invalid for a table without columns.
    """
    schema = version.settings.schema
    if not schema:
        raise Invalid(f"Table {table_id} does not have a schema.")
    selected = version.queried_segments() if segments is None else segments
    columns = ", ".join(
        f"CAST({quote_identifier(column.name) if selected else 'NULL'} AS {to_duckdb_type(column)}) "
        f"AS {quote_identifier(column.name)}"
        for column in schema
    )
    if not selected:
        return f"(SELECT {columns} WHERE false)"
    files = ", ".join(string_literal(str(store.path(segment))) for segment in selected)
    # Without union_by_name, all files would be read with the types of the first one.
    options = ", union_by_name = true" if version.settings.has_altered_types else ""
    return f"(SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false{options}))"
