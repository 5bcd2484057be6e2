"""Reads one version of the target of an UPDATE, DELETE or MERGE by row id, and computes the new values of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.jobs.ddl_statements import conform_query_rows
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.script_state import SqlEvaluator, check_assignable
from devstack.bigquery.sql.field_types import TableField, quote_identifier, to_duckdb_type
from devstack.bigquery.sql.statements import Assignment
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.version_relation import ROW_ID, relation_sql

_TOO_MANY_MATCHES = "UPDATE/MERGE must match at most one source row for each target row"


class DmlTarget:
    """One version of the target, as DuckDB reads it.

    `relation`: SQL that reads the target under its alias. `row_id`: SQL of a row's id. `columns`: the names that the
    statement's expressions may refer to.
    """

    def __init__(self, alias: str, evaluator: SqlEvaluator, table: TableId, version: TableVersion) -> None:
        self.schema = version.settings.schema
        self.columns = {column.name for column in self.schema} | {alias}
        self._alias = quote_identifier(alias)
        self.relation = (
            f"{relation_sql(table, version, evaluator.reader.catalog.segments, with_row_id=True)} AS {self._alias}"
        )
        self.row_id = f"{self._alias}.{ROW_ID}"
        self._table = table
        self._session: DuckDbSession = evaluator.state.session
        self._evaluator = evaluator

    def values_sql(self, assignments: Sequence[Assignment], columns: set[str], relations: str) -> str:
        """SQL of row ids, each with the values assigned to that row, cast to the types of the assigned columns.

        `columns`: the names that the assigned expressions may refer to. `relations`: what follows FROM in this SQL.
        """
        fields = [self._field(item.path) for item in assignments]
        values = [self._evaluator.duckdb_sql(item.value, columns) for item in assignments]
        casts = self.checked_casts(values, fields, f"FROM {relations}")
        selected = ", ".join(f"{cast} AS v{number}" for number, cast in enumerate(casts))
        return f"SELECT {self.row_id}, {selected} FROM {relations}"

    def checked_casts(self, values: Sequence[str], fields: Sequence[TableField], from_clause: str) -> list[str]:
        """SQL of values, each cast to its field's type. `from_clause`: where the columns in the values come from.

        Raises InvalidQuery if BigQuery would not assign a value, by its own type, to its field.
        """
        sql = f"SELECT {', '.join(f'{value} AS v{number}' for number, value in enumerate(values))} {from_clause}"
        untyped = self._session.untyped_positions(sql)
        for position, (source, field) in enumerate(zip(self._session.schema(sql), fields, strict=True)):
            if position not in untyped:
                check_assignable(source, field)
        return [f"CAST({value} AS {to_duckdb_type(f)})" for value, f in zip(values, fields, strict=True)]

    def updated_rows(self, assignments: Sequence[Assignment], values: str) -> pa.Table:
        """The rows with new values. `values`: the temporary table with the result of `values_sql`."""
        assigned = {tuple(p.lower() for p in item.path): f"_new.v{number}" for number, item in enumerate(assignments)}
        columns = ", ".join(
            f"{_new_value(column, (column.name.lower(),), f'{self._alias}.{quote_identifier(column.name)}', assigned)} "
            f"AS {quote_identifier(column.name)}"
            for column in self.schema
        )
        _, rows = self._session.run(
            f"SELECT {columns} FROM {self.relation} JOIN {values} AS _new ON {self.same_row('_new')}"
        )
        return conform_query_rows(rows, self.schema)

    def same_row(self, alias: str) -> str:
        """The SQL condition that a row of the relation `alias` has the id of the target's row."""
        return f"{self.row_id} = {alias}.{ROW_ID}"

    def refuse_repeated_rows(self, table: str, condition: str) -> None:
        """Raises InvalidQuery if a row id occurs twice in the temporary table where the condition is true."""
        _, repeated = self._session.run(
            f"SELECT 1 AS n FROM {table} WHERE {condition} GROUP BY {ROW_ID} HAVING count(*) > 1 LIMIT 1"
        )
        if repeated.num_rows:
            raise InvalidQuery(_TOO_MANY_MATCHES)

    def count(self, table: str) -> int:
        """The number of rows of a temporary table."""
        _, result = self._session.run(f"SELECT count(*) AS n FROM {table}")
        return int(result.column(0)[0].as_py())

    def column(self, name: str) -> TableField:
        field = next((column for column in self.schema if column.name.lower() == name.lower()), None)
        if field is None:
            raise InvalidQuery(f"Column {name} is not present in table {self._table.table}")
        return field

    def _field(self, path: tuple[str, ...]) -> TableField:
        field = self.column(path[0])
        for part in path[1:]:
            if field.type != "STRUCT" or field.mode == "REPEATED":
                raise InvalidQuery(f"Cannot access field {part} on a value with type {field.sql_type()}")
            inner = next((child for child in field.fields if child.name.lower() == part.lower()), None)
            if inner is None:
                raise InvalidQuery(f"Field name {part} does not exist in {field.sql_type()}")
            field = inner
        return field


def _new_value(field: TableField, path: tuple[str, ...], current: str, assigned: dict[tuple[str, ...], str]) -> str:
    """SQL of a column's new value: assigned as a whole or in some fields of a STRUCT, or unchanged.

    `assigned`: SQL of the assigned values by the path of the field. `current`: SQL of the old value.
    """
    if path in assigned:
        return assigned[path]
    if not any(assigned_path[: len(path)] == path for assigned_path in assigned):
        return current
    fields = ", ".join(
        f"{quote_identifier(child.name)} := "
        f"{_new_value(child, (*path, child.name.lower()), f'({current}).{quote_identifier(child.name)}', assigned)}"
        for child in field.fields
    )
    return f"struct_pack({fields})"
