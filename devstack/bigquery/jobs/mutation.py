"""What UPDATE, DELETE and MERGE change: which rows of the target go, and which rows come, found in one snapshot.

Rows of the target are known by their place in its version. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs.definitions import conformed
from devstack.bigquery.jobs.dml_reading import Mutation, expressions_of, source_alias
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.external_tables import FILE_NAME
from devstack.bigquery.jobs.script_state import StatementSql, check_assignable
from devstack.bigquery.sql.statements import (
    MATCHED,
    NOT_MATCHED_BY_SOURCE,
    NOT_MATCHED_BY_TARGET,
    Assignment,
    Delete,
    Merge,
    MergeClause,
    MergeInsert,
    MergeUpdate,
    Update,
)
from devstack.bigquery.sql.types import TableField, quoted, to_duckdb_type
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.relation import ROW, relation_sql

_SOURCE_ROW = '"__source row"'
_CLAUSE = '"__clause"'
_TOO_MANY_MATCHES = "UPDATE/MERGE must match at most one source row for each target row"


@dataclass(frozen=True)
class Changes:
    """`removed` names a temporary table of the rows that go (updated ones too), `new_rows` those that come."""

    removed: str
    new_rows: pa.Table
    counts: dict[str, int]


class Mutator:
    """One statement on one version of its target."""

    def __init__(self, statement: Mutation, sql: StatementSql, table: TableId, version: TableVersion) -> None:
        self._statement = statement
        self._sql = sql
        self._session: DuckDbSession = sql.state.session
        self._schema = version.settings.schema
        self._columns = {column.name for column in self._schema} | {statement.alias}
        self._alias = quoted(statement.alias)
        self._target = f"{relation_sql(table, version, sql.reader.catalog.segments, identity=True)} AS {self._alias}"
        self._identity = f"{self._alias}.{ROW}"

    def changes(self) -> Changes:
        """Raises InvalidQuery where BigQuery refuses the statement while it runs."""
        match self._statement:
            case Delete():
                return self._delete(self._statement)
            case Update():
                return self._update(self._statement)
            case Merge():
                return self._merge(self._statement)

    def check(self) -> None:
        """Only binds names and types, for a dry run."""
        match self._statement:
            case Delete():
                self._session.schema(self._delete_sql(self._statement))
            case Update():
                self._session.schema(self._update_sql(self._statement))
            case Merge():
                self._bind_merge(self._statement)

    # -- DELETE and UPDATE

    def _delete_sql(self, statement: Delete) -> str:
        condition = self._sql.duckdb(statement.where, self._columns)
        return f"SELECT {self._identity} FROM {self._target} WHERE {condition}"

    def _delete(self, statement: Delete) -> Changes:
        removed = self._session.materialize(self._delete_sql(statement))
        return Changes(removed, arrow_schema(self._schema).empty_table(), {"deleted": self._count(removed)})

    def _update_sql(self, statement: Update) -> str:
        columns, sources = self._columns, self._target
        if statement.source is not None:
            columns = columns | self._sql.columns_read(statement.source)
            sources += f", {self._sql.duckdb(statement.source.args['from_']).removeprefix(' FROM ')}"
            sources += "".join(self._sql.duckdb(join, columns) for join in statement.source.args.get("joins") or [])
        condition = self._sql.duckdb(statement.where, columns)
        return self._values_sql(statement.assignments, columns, f"{sources} WHERE {condition}")

    def _update(self, statement: Update) -> Changes:
        values = self._session.materialize(self._update_sql(statement))
        self._refuse_repeated_rows(values, "TRUE")
        rows = self._updated_rows(statement.assignments, values)
        return Changes(values, rows, {"updated": rows.num_rows})

    # -- MERGE

    def _merge(self, statement: Merge) -> Changes:
        source = self._session.materialize(self._source_sql(statement))
        pairs = self._session.materialize(self._pairs_sql(statement, source))
        self._refuse_repeated_rows(pairs, f"{_CLAUSE} IS NOT NULL")
        alone = self._session.materialize(self._alone_sql(statement, pairs))
        acted = " UNION ALL ".join(f"SELECT {ROW} FROM {table} WHERE {_CLAUSE} IS NOT NULL" for table in (pairs, alone))
        removed = self._session.materialize(acted)
        parts, updated = [arrow_schema(self._schema).empty_table()], 0
        for number, clause in self._clauses(statement, MATCHED) + self._clauses(statement, NOT_MATCHED_BY_SOURCE):
            if isinstance(clause.action, MergeUpdate):
                values = self._session.materialize(self._clause_values(statement, number, clause, source, pairs, alone))
                parts.append(self._updated_rows(clause.action.assignments, values))
                updated += parts[-1].num_rows
        inserted = self._inserted_rows(statement, source, pairs)
        counts = {
            "inserted": sum(rows.num_rows for rows in inserted),
            "updated": updated,
            "deleted": self._count(removed) - updated,
        }
        return Changes(removed, pa.concat_tables([*parts, *inserted]), counts)

    def _source_sql(self, statement: Merge) -> str:
        rows = self._sql.duckdb(statement.source.args["from_"])
        return f"SELECT *, row_number() OVER () AS {_SOURCE_ROW}{rows}"

    def _pairs_sql(self, statement: Merge, source: str) -> str:
        """Each match with the number of the first clause that takes it, NULL for none."""
        columns = self._all_columns(statement, source)
        clause = self._clause_number(self._clauses(statement, MATCHED), columns)
        condition = self._sql.duckdb(statement.condition, columns)
        alias = quoted(source_alias(statement))
        return (
            f"SELECT {self._identity}, {alias}.{_SOURCE_ROW}, {clause} AS {_CLAUSE} "
            f"FROM {self._target} JOIN {source} AS {alias} ON {condition}"
        )

    def _alone_sql(self, statement: Merge, pairs: str) -> str:
        """Target rows without a match, with their clause."""
        clause = self._clause_number(self._clauses(statement, NOT_MATCHED_BY_SOURCE), self._columns)
        return (
            f"SELECT {self._identity}, {clause} AS {_CLAUSE} FROM {self._target} ANTI JOIN {pairs} AS _pairs "
            f"ON {self._same_row('_pairs')}"
        )

    def _clause_values(
        self, statement: Merge, number: int, clause: MergeClause, source: str, pairs: str, alone: str
    ) -> str:
        assert isinstance(clause.action, MergeUpdate)  # the caller chooses these
        rows = pairs if clause.kind == MATCHED else alone
        tables = f"{self._target} JOIN {rows} AS _acted ON {self._same_row('_acted')} AND _acted.{_CLAUSE} = {number}"
        columns = self._columns
        if clause.kind == MATCHED:
            alias = quoted(source_alias(statement))
            tables += f" JOIN {source} AS {alias} ON {alias}.{_SOURCE_ROW} = _acted.{_SOURCE_ROW}"
            columns = self._all_columns(statement, source)
        return self._values_sql(clause.action.assignments, columns, tables)

    def _inserted_rows(self, statement: Merge, source: str, pairs: str) -> list[pa.Table]:
        clauses = self._clauses(statement, NOT_MATCHED_BY_TARGET)
        columns, alias = self._source_columns(statement, source), quoted(source_alias(statement))
        found: list[pa.Table] = []
        if not clauses:
            return found
        number = self._clause_number(clauses, columns)
        unmatched = self._session.materialize(
            f"SELECT {alias}.*, {number} AS {_CLAUSE} FROM {source} AS {alias} "
            f"ANTI JOIN {pairs} AS _pairs ON {alias}.{_SOURCE_ROW} = _pairs.{_SOURCE_ROW}"
        )
        for position, clause in clauses:
            targets, values = self._insert_values(statement, clause, source)
            rows = f"FROM {unmatched} AS {alias} WHERE {alias}.{_CLAUSE} = {position}"
            casts = self._checked_casts(values, targets, rows)
            _, inserted = self._session.run(
                f"SELECT {', '.join(f'{c} AS {quoted(t.name)}' for c, t in zip(casts, targets, strict=True))} {rows}"
            )
            found.append(conformed(inserted, self._schema))
        return found

    def _insert_values(
        self, statement: Merge, clause: MergeClause, source: str
    ) -> tuple[tuple[TableField, ...], list[str]]:
        assert isinstance(clause.action, MergeInsert)  # the only action of its kind of clause
        columns = self._source_columns(statement, source)
        targets = tuple(self._column(name) for name in clause.action.columns) or self._schema
        if len({target.name for target in targets}) != len(targets):
            raise InvalidQuery(f"INSERT names a column twice: [{', '.join(clause.action.columns)}]")
        if clause.action.values is None:
            alias = quoted(source_alias(statement))
            values = [f"{alias}.{quoted(name)}" for name in columns if name.upper() != FILE_NAME]
        else:
            values = [self._sql.duckdb(value, {*columns, source_alias(statement)}) for value in clause.action.values]
        if len(values) != len(targets):
            raise InvalidQuery(
                f"Inserted row has wrong column count; Has [{len(values)}], expected [{len(targets)}]: "
                f"[{', '.join(target.name for target in targets)}]"
            )
        return targets, values

    def _bind_merge(self, statement: Merge) -> None:
        source = f"({self._source_sql(statement)})"
        pairs, alone = f"({self._pairs_sql(statement, source)})", ""
        self._session.schema(self._pairs_sql(statement, source))
        alone = f"({self._alone_sql(statement, pairs)})"
        self._session.schema(self._alone_sql(statement, pairs))
        for number, clause in enumerate(statement.clauses):
            if isinstance(clause.action, MergeUpdate):
                self._session.schema(self._clause_values(statement, number, clause, source, pairs, alone))
            elif isinstance(clause.action, MergeInsert):
                targets, values = self._insert_values(statement, clause, source)
                self._checked_casts(values, targets, f"FROM {source} AS {quoted(source_alias(statement))}")

    # -- parts of SQL

    def _clauses(self, statement: Merge, kind: str) -> list[tuple[int, MergeClause]]:
        found = [(number, clause) for number, clause in enumerate(statement.clauses) if clause.kind == kind]
        for _, clause in found:
            for expression in expressions_of(clause):
                _refuse_correlation(expression, {statement.alias.lower(), source_alias(statement).lower()})
        return found

    def _clause_number(self, clauses: list[tuple[int, MergeClause]], columns: Collection[str]) -> str:
        branches = [
            f"WHEN {'TRUE' if c.condition is None else self._sql.duckdb(c.condition, columns)} THEN {number}"
            for number, c in clauses
        ]
        return f"CASE {' '.join(branches)} END" if branches else "CAST(NULL AS INTEGER)"

    def _values_sql(self, assignments: Sequence[Assignment], columns: set[str], rows: str) -> str:
        """The assigned values, in the types of what they are assigned to, beside the row's identity."""
        fields = [self._field(item.path) for item in assignments]
        written = [self._sql.duckdb(item.value, columns) for item in assignments]
        casts = self._checked_casts(written, fields, f"FROM {rows}")
        values = ", ".join(f"{cast} AS v{number}" for number, cast in enumerate(casts))
        return f"SELECT {self._identity}, {values} FROM {rows}"

    def _checked_casts(self, written: Sequence[str], fields: Sequence[TableField], rows: str) -> list[str]:
        sql = f"SELECT {', '.join(f'{value} AS v{number}' for number, value in enumerate(written))} {rows}"
        untyped = self._session.untyped(sql)
        for position, (found, field) in enumerate(zip(self._session.schema(sql), fields, strict=True)):
            if position not in untyped:
                check_assignable(found, field)
        return [f"CAST({value} AS {to_duckdb_type(f)})" for value, f in zip(written, fields, strict=True)]

    def _updated_rows(self, assignments: Sequence[Assignment], values: str) -> pa.Table:
        places = {tuple(p.lower() for p in item.path): f"_new.v{number}" for number, item in enumerate(assignments)}
        columns = ", ".join(
            f"{_assigned(column, (column.name.lower(),), f'{self._alias}.{quoted(column.name)}', places)} "
            f"AS {quoted(column.name)}"
            for column in self._schema
        )
        _, rows = self._session.run(
            f"SELECT {columns} FROM {self._target} JOIN {values} AS _new ON {self._same_row('_new')}"
        )
        return conformed(rows, self._schema)

    def _same_row(self, other: str) -> str:
        return f"{self._identity} = {other}.{ROW}"

    def _refuse_repeated_rows(self, rows: str, condition: str) -> None:
        _, found = self._session.run(
            f"SELECT 1 AS n FROM {rows} WHERE {condition} GROUP BY {ROW} HAVING count(*) > 1 LIMIT 1"
        )
        if found.num_rows:
            raise InvalidQuery(_TOO_MANY_MATCHES)

    def _count(self, rows: str) -> int:
        _, found = self._session.run(f"SELECT count(*) AS n FROM {rows}")
        return int(found.column(0)[0].as_py())

    # -- names

    def _source_columns(self, statement: Merge, source: str) -> list[str]:
        fields = self._session.schema(f"SELECT * EXCLUDE ({_SOURCE_ROW}) FROM {source}")
        return [field.name for field in fields]

    def _all_columns(self, statement: Merge, source: str) -> set[str]:
        return self._columns | set(self._source_columns(statement, source)) | {source_alias(statement)}

    def _column(self, name: str) -> TableField:
        found = next((column for column in self._schema if column.name.lower() == name.lower()), None)
        if found is None:
            raise InvalidQuery(f"Column {name} is not present in table {self._statement.table.table}")
        return found

    def _field(self, path: tuple[str, ...]) -> TableField:
        field = self._column(path[0])
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


def _refuse_correlation(expression: exp.Expression, aliases: set[str]) -> None:
    """Source: "Using data manipulation language (DML)", limitations."""
    for query in expression.find_all(exp.Select):
        for column in query.find_all(exp.Column):
            if len(column.parts) > 1 and column.parts[0].name.lower() in aliases:
                raise InvalidQuery(
                    "Correlated subqueries within a when_clause, search_condition, merge_update_clause or "
                    f"merge_insert_clause are not supported for MERGE statements: found {column.sql('bigquery')} in one"
                )
