"""Translates a SELECT of BigQuery and runs it in an empty DuckDB, as the stand-in does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
from sqlglot import exp

from devstack.bigquery.sql import farm_fingerprint, json_text
from devstack.bigquery.sql.field_types import QueryValue, TableField, field_from_duckdb
from devstack.bigquery.sql.script_parser import parse_script
from devstack.bigquery.sql.statements import Query, TableName
from devstack.bigquery.sql.transpile import to_duckdb, translate_duckdb_error

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def no_table(name: TableName, time: exp.Expression | None) -> str:
    raise AssertionError(f"table {name} resolved")


def run(
    text: str,
    parameters: Mapping[str, QueryValue] | None = None,
    variables: Mapping[str, QueryValue] | None = None,
    resolve: Any = no_table,
    **more: Any,
) -> tuple[tuple[TableField, ...], list[tuple[Any, ...]]]:
    """The columns and rows of a SELECT. Values of INT64 columns that DuckDB returns as Decimal are converted to int.

    `resolve`: finds a table for its name and time. `more`: further arguments of `to_duckdb`.
    """
    (statement,) = parse_script(text).statements
    assert isinstance(statement, Query)
    sql = to_duckdb(statement.tree, resolve, parameters or {}, variables or {}, now=NOW, **more)
    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        farm_fingerprint.register(connection)
        json_text.register(connection)
        relation = connection.sql(sql)
        fields = tuple(field_from_duckdb(n, kind) for n, kind in zip(relation.columns, relation.types, strict=True))
        table = relation.to_arrow_table()
    except duckdb.Error as error:
        raise translate_duckdb_error(error) from error
    finally:
        connection.close()
    columns = [
        [narrowed(field, value) for value in column.to_pylist()]
        for field, column in zip(fields, table.columns, strict=True)
    ]
    return fields, list(zip(*columns, strict=True))


def narrowed(field: TableField, value: Any) -> Any:
    return int(value) if field.type == "INT64" and isinstance(value, Decimal) else value
