"""The target of a mutation: its rows, known by their place in one version, and the SQL that gives them new values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs.definitions import conformed
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.script_state import StatementSql, check_assignable
from devstack.bigquery.sql.statements import Assignment
from devstack.bigquery.sql.types import TableField, quoted, to_duckdb_type
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.relation import ROW, relation_sql

_TOO_MANY_MATCHES = "UPDATE/MERGE must match at most one source row for each target row"


class MutatedTarget:
    """`relation` reads it under its alias, `identity` is the place of a row in it, `columns` what may be named."""

    def __init__(self, alias: str, sql: StatementSql, table: TableId, version: TableVersion) -> None:
        self.schema = version.settings.schema
        self.columns = {column.name for column in self.schema} | {alias}
        self._alias = quoted(alias)
        self.relation = f"{relation_sql(table, version, sql.reader.catalog.segments, identity=True)} AS {self._alias}"
        self.identity = f"{self._alias}.{ROW}"
        self._table = table
        self._session: DuckDbSession = sql.state.session
        self._sql = sql

    def values_sql(self, assignments: Sequence[Assignment], columns: set[str], rows: str) -> str:
        """The assigned values, in the types of what they are assigned to, beside the row's identity."""
        fields = [self._field(item.path) for item in assignments]
        written = [self._sql.duckdb(item.value, columns) for item in assignments]
        casts = self.checked_casts(written, fields, f"FROM {rows}")
        values = ", ".join(f"{cast} AS v{number}" for number, cast in enumerate(casts))
        return f"SELECT {self.identity}, {values} FROM {rows}"

    def checked_casts(self, written: Sequence[str], fields: Sequence[TableField], rows: str) -> list[str]:
        """The written values in the types of `fields`; refused where BigQuery would not assign them."""
        sql = f"SELECT {', '.join(f'{value} AS v{number}' for number, value in enumerate(written))} {rows}"
        untyped = self._session.untyped(sql)
        for position, (found, field) in enumerate(zip(self._session.schema(sql), fields, strict=True)):
            if position not in untyped:
                check_assignable(found, field)
        return [f"CAST({value} AS {to_duckdb_type(f)})" for value, f in zip(written, fields, strict=True)]

    def updated_rows(self, assignments: Sequence[Assignment], values: str) -> pa.Table:
        """The rows named in the table `values` as they are after the assignments."""
        places = {tuple(p.lower() for p in item.path): f"_new.v{number}" for number, item in enumerate(assignments)}
        columns = ", ".join(
            f"{_assigned(column, (column.name.lower(),), f'{self._alias}.{quoted(column.name)}', places)} "
            f"AS {quoted(column.name)}"
            for column in self.schema
        )
        _, rows = self._session.run(
            f"SELECT {columns} FROM {self.relation} JOIN {values} AS _new ON {self.same_row('_new')}"
        )
        return conformed(rows, self.schema)

    def same_row(self, other: str) -> str:
        return f"{self.identity} = {other}.{ROW}"

    def refuse_repeated_rows(self, rows: str, condition: str) -> None:
        _, found = self._session.run(
            f"SELECT 1 AS n FROM {rows} WHERE {condition} GROUP BY {ROW} HAVING count(*) > 1 LIMIT 1"
        )
        if found.num_rows:
            raise InvalidQuery(_TOO_MANY_MATCHES)

    def count(self, rows: str) -> int:
        _, found = self._session.run(f"SELECT count(*) AS n FROM {rows}")
        return int(found.column(0)[0].as_py())

    def column(self, name: str) -> TableField:
        found = next((column for column in self.schema if column.name.lower() == name.lower()), None)
        if found is None:
            raise InvalidQuery(f"Column {name} is not present in table {self._table.table}")
        return found

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


def _assigned(field: TableField, path: tuple[str, ...], current: str, places: dict[tuple[str, ...], str]) -> str:
    """The new value of a column: assigned as a whole, in some fields of a STRUCT, or as it was."""
    if path in places:
        return places[path]
    if not any(place[: len(path)] == path for place in places):
        return current
    fields = ", ".join(
        f"{quoted(child.name)} := "
        f"{_assigned(child, (*path, child.name.lower()), f'({current}).{quoted(child.name)}', places)}"
        for child in field.fields
    )
    return f"struct_pack({fields})"
