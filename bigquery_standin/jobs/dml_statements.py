"""Executes UPDATE, DELETE, MERGE and TRUNCATE TABLE.

DuckDB runs a statement on a copy of the target, and returns the rows that it has inserted, updated and deleted there.
The partitions of these rows are rewritten from the copy. To count the scanned bytes, all that a statement reads is one
SELECT. In it, a constant condition on the target's partition column prunes partitions only if no row in a pruned
partition can change the result. That is so in WHERE, and in the ON of a MERGE that has no clause for target rows
without a match. Source: "Data manipulation language".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.jobs.destination_table import rewritten
from bigquery_standin.jobs.query_statements import conform_query_rows
from bigquery_standin.jobs.scanned_bytes import check_bytes_billed, conjuncts
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.field_types import TableField, quote_identifier, to_duckdb_type
from bigquery_standin.sql.statements import (
    NOT_MATCHED_BY_SOURCE,
    Mutation,
    alias_of,
    clause_kind,
    clauses_of,
    target_of,
    where_of,
)
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.partitions import partition_ids
from bigquery_standin.storage.segment_store import conform
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.version_relation import relation_sql

_ACTION = "merge_action"  # the column in which DuckDB says what a MERGE has done to a row: INSERT, UPDATE or DELETE
# Columns of the copy: the partitioning column's value before the statement, and whether the row was in a partition, and
# not in the streaming buffer; NULL for a new row.
_OLD, _STORED = "__old", "__stored"


def truncate_table(tree: exp.TruncateTable, run: StatementRun) -> Outcome:
    """Reads no row and bills nothing."""
    table, version = _mutable_version(tree, run)
    outcome = run.outcome("TRUNCATE_TABLE", changed_rows={"deleted": version.rows})
    if version.buffer:
        raise InvalidQuery(
            f"TRUNCATE TABLE statement over table {table.project}.{table.dataset}.{table.table} would affect rows in "
            "the streaming buffer, which is not supported"
        )
    run.state.check_cancelled()
    change = Change(version.settings, {}, run.catalog.next_us(table), version.clone, replaces_rows=True)
    return run.commit(table, change, outcome)


def change_rows(tree: Mutation, run: StatementRun) -> Outcome:
    """Executes UPDATE, DELETE or MERGE."""
    catalog, session = run.catalog, run.state.session
    table, version = _mutable_version(tree, run)
    scanned = run.scan(read_query_of(tree))
    target = _Target(tree, run, table, version)
    copy = session.materialize(target.copy_sql() + " LIMIT 0" * run.is_dry)
    _, changed = session.run(target.statement_sql(copy))
    if run.is_dry:  # names and types are right; which partitions would be rewritten is not known, at most all
        return run.outcome(tree.key.upper(), scanned.plus(table, sum(p.bytes for p in version.partitions.values())))
    if pc.any(pc.equal(changed.column(_STORED), False)).as_py():
        raise NotImplementedConstruct(f"DML that changes rows in the streaming buffer of table {table}")
    written = changed.filter(pc.not_equal(changed.column(_ACTION), "DELETE"))
    new_rows = conform_query_rows(written.select(target.columns), target.schema)
    partitions = partition_ids(changed.filter(changed.column(_STORED)).column(_OLD), version.settings)
    scanned = scanned.plus(table, sum(version.partitions[key].bytes for key in partitions))
    check_bytes_billed(scanned, run.state.maximum_bytes_billed)
    outcome = run.outcome(tree.key.upper(), scanned, changed_rows=_counts(tree, changed.column(_ACTION)))
    if not changed.num_rows:
        return outcome
    partitions |= partition_ids(new_rows.column(version.settings.partition_column or 0), version.settings)
    _, rows = session.run(f"SELECT * EXCLUDE ({_OLD}, {_STORED}) FROM {copy} WHERE {_STORED} IS DISTINCT FROM FALSE")
    run.state.check_cancelled()
    rows = conform(rows, target.schema)
    return run.commit(table, rewritten(version, rows, partitions, catalog.segments, catalog.next_us(table)), outcome)


def _mutable_version(tree: Mutation | exp.TruncateTable, run: StatementRun) -> tuple[TableId, TableVersion]:
    """As `StatementRun.dml_target`, for a statement that may change existing rows.

    Raises InvalidQuery also if the table has pending row changes.
    """
    table, version = run.dml_target(target_of(tree))
    if version.pending_changes:
        raise InvalidQuery(
            f"UPDATE, DELETE, MERGE and TRUNCATE TABLE statements are not supported over table {table}, which is "
            "active with change data capture: wait until the streamed changes are applied"
        )
    return table, version


class _Target:
    """One version of a statement's target, and DuckDB's SQL of the statement."""

    def __init__(self, tree: Mutation, run: StatementRun, table: TableId, version: TableVersion) -> None:
        self._tree = tree
        self.schema = version.settings.schema
        self._table = table
        self._run = run
        self.columns = [column.name for column in self.schema]
        self._alias = quote_identifier(alias_of(tree))
        self._version = version

    def _sql(self, node: exp.Expr) -> str:
        return self._run.duckdb_sql(node, has_columns=True)

    def copy_sql(self) -> str:
        """SQL of the target's rows with the two columns of the copy."""
        version, store = self._version, self._run.catalog.segments
        stored = relation_sql(self._table, version, store, version.segments())
        old = version.settings.partition_column
        old_sql = "0" if old is None else quote_identifier(old)
        sql = f"SELECT *, {old_sql} AS {_OLD}, TRUE AS {_STORED} FROM {stored}"
        if not version.buffer:
            return sql
        buffered = relation_sql(self._table, version, store, [rows.segment for rows in version.buffer])
        return f"{sql} UNION ALL SELECT *, {old_sql}, FALSE FROM {buffered}"

    def statement_sql(self, copy: str) -> str:
        """DuckDB's statement on the table `copy`. It returns `merge_action`, and the inserted, new or deleted row."""
        if any(column.name.lower() == _ACTION for column in self.schema):
            raise NotImplementedConstruct(f"DML of a table with a column [{_ACTION}]")
        tree, target = self._tree, f"{copy} AS {self._alias}"
        match tree:
            case exp.Merge():
                return f"{self._merge_sql(copy)} RETURNING {_ACTION}, *"
            case exp.Update():
                statement = f"UPDATE {target} SET {self._assigned(tree.expressions, f'FROM {target}')}"
            case _:
                statement = f"DELETE FROM {target}"
        return f"{statement} WHERE {self._sql(where_of(tree))} RETURNING '{tree.key.upper()}' AS {_ACTION}, *"

    def _merge_sql(self, copy: str) -> str:
        tree = self._tree
        from_clause = self._sql(exp.From(this=tree.args["using"].copy())).lstrip()
        alias = source_alias(tree)
        source = f"(SELECT * {from_clause}) AS {quote_identifier(alias)}"
        clauses = []
        for clause in clauses_of(tree):
            for expression in expressions_of(clause):
                _refuse_correlation(expression, {alias_of(tree).lower(), alias.lower()})
            condition, then = clause.args.get("condition"), clause.args["then"]
            more = "" if condition is None else f" AND {self._sql(condition)}"
            if isinstance(then, exp.Update):
                matching = f"FROM {copy} AS {self._alias}, {source}"
                action = f"UPDATE SET {self._assigned(then.expressions, matching)}"
            elif isinstance(then, exp.Insert):
                action = self._insert(then, f"FROM {source}")
            else:
                action = "DELETE"
            clauses.append(f"WHEN {clause_kind(clause)}{more} THEN {action}")
        on = self._sql(tree.args["on"])
        return f"MERGE INTO {copy} AS {self._alias} USING {source} ON {on} {' '.join(clauses)}"

    def _insert(self, insert: exp.Insert, from_clause: str) -> str:
        columns = [column.name for column in insert.this.expressions]
        fields = [self._column(name) for name in columns]
        if len({field.name for field in fields}) != len(fields):
            raise InvalidQuery(f"INSERT names a column twice: [{', '.join(columns)}]")
        values = [self._sql(value) for value in insert.expression.expressions]
        if len(values) != len(fields):
            raise InvalidQuery(
                f"Inserted row has wrong column count; Has [{len(values)}], expected [{len(fields)}]: "
                f"[{', '.join(field.name for field in fields)}]"
            )
        listed = ", ".join(quote_identifier(field.name) for field in fields)
        return f"INSERT ({listed}) VALUES ({', '.join(self._casts(values, fields, from_clause))})"

    def _assigned(self, assignments: Sequence[exp.EQ], from_clause: str) -> str:
        """SQL of the assignments of an UPDATE. `from_clause`: where the columns in the values come from."""
        fields = [self._column(item.this.name) for item in assignments]
        values = [self._sql(item.expression) for item in assignments]
        pairs = zip(fields, self._casts(values, fields, from_clause), strict=True)
        return ", ".join(f"{quote_identifier(field.name)} = {value}" for field, value in pairs)

    def _casts(self, values: Sequence[str], fields: Sequence[TableField], from_clause: str) -> list[str]:
        """SQL of values, each cast to its field's type. `from_clause`: where the columns in the values come from.

        Raises InvalidQuery if BigQuery would not assign a value, by its own type, to its field.
        """
        sql = f"SELECT {', '.join(f'{value} AS v{number}' for number, value in enumerate(values))} {from_clause}"
        self._run.check_assignable(sql, fields)
        return [f"CAST({value} AS {to_duckdb_type(field)})" for value, field in zip(values, fields, strict=True)]

    def _column(self, name: str) -> TableField:
        field = next((column for column in self.schema if column.name.lower() == name.lower()), None)
        if field is None:
            raise InvalidQuery(f"Column {name} is not present in table {self._table.table}")
        return field


def _counts(tree: Mutation, actions: pa.ChunkedArray) -> dict[str, int]:
    """How many rows the statement has changed, by kind of change. `actions`: what DuckDB has done to each row."""
    found = {item["values"]: item["counts"] for item in pc.value_counts(actions).to_pylist()}
    kinds = ("INSERT", "UPDATE", "DELETE") if isinstance(tree, exp.Merge) else (tree.key.upper(),)
    return {f"{action.lower().removesuffix('e')}ed": found.get(action, 0) for action in kinds}


def _refuse_correlation(expression: exp.Expr, aliases: set[str]) -> None:
    """Raises InvalidQuery if a subquery in the expression refers to the MERGE's target or source by alias.

    Source: "Using data manipulation language (DML)", limitations.
    """
    for query in expression.find_all(exp.Select):
        for column in query.find_all(exp.Column):
            if len(column.parts) > 1 and column.parts[0].name.lower() in aliases:
                raise InvalidQuery(
                    "Correlated subqueries within a when_clause, search_condition, merge_update_clause or "
                    f"merge_insert_clause are not supported for MERGE statements: found {column.sql('bigquery')} in one"
                )


_DEFAULT_SOURCE_ALIAS = "__source"


def read_query_of(tree: Mutation) -> exp.Select:
    """A SELECT with the statement's tables and columns, and with those of its filters that may prune partitions."""
    target = _named(tree.this, alias_of(tree))
    if isinstance(tree, exp.Merge):
        return _merge_read_query(tree, target)
    # The assigned values of an UPDATE; a DELETE has none.
    values: list[exp.Expr] = [item.expression.copy() for item in tree.expressions]
    return exp.Select(expressions=values or [exp.Literal.number(1)]).from_(target).where(where_of(tree).copy())


def source_alias(tree: Mutation) -> str:
    """The name by which the statement's expressions refer to the source of a MERGE."""
    return str(tree.args["using"].alias_or_name) or _DEFAULT_SOURCE_ALIAS


def expressions_of(clause: exp.When) -> Iterator[exp.Expr]:
    """The clause's condition and values."""
    then = clause.args["then"]
    if clause.args.get("condition") is not None:
        yield clause.args["condition"]
    if isinstance(then, exp.Update):
        yield from (item.expression for item in then.expressions)
    if isinstance(then, exp.Insert):
        yield from then.expression.expressions


def target_filters(tree: Mutation) -> list[exp.Expr]:
    """The conditions in ON that keep a row of the target as it is; none if rows without a match may change."""
    if any(clause_kind(clause) == NOT_MATCHED_BY_SOURCE for clause in clauses_of(tree)):
        return []
    return [part for part in conjuncts(tree.args["on"]) if _refers_only_to(part, alias_of(tree))]


def _merge_read_query(tree: Mutation, target: exp.Expr) -> exp.Select:
    source = _named(tree.args["using"], source_alias(tree))
    values: list[exp.Expr] = [value.copy() for clause in clauses_of(tree) for value in expressions_of(clause)]
    filters = [part.copy() for part in target_filters(tree)]
    values += [part.copy() for part in conjuncts(tree.args["on"]) if part not in filters]
    select = exp.Select(expressions=values or [exp.Literal.number(1)]).from_(target)
    select.append("joins", exp.Join(this=source, kind="CROSS"))
    return select.where(*filters) if filters else select


def _refers_only_to(condition: exp.Expr, alias: str) -> bool:
    """Whether the condition has columns, and all are qualified by this alias."""
    columns = list(condition.find_all(exp.Column))
    return bool(columns) and all(column.parts[0].name.lower() == alias.lower() for column in columns)


def _named(table: exp.Expr, alias: str) -> exp.Expr:
    """A copy of the table or subquery, with the alias if it has none."""
    copy = table.copy()
    if not copy.alias:
        copy.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return copy
