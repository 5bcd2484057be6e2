"""Executes UPDATE, DELETE, MERGE and TRUNCATE TABLE.

UPDATE and DELETE are SELECTs of the rows that change. DuckDB runs a MERGE on a copy of the target, and returns what it
has inserted, updated and deleted there. To count the scanned bytes, all that a statement reads is one SELECT. In it, a
constant condition on the target's partition column prunes partitions only if no row in a pruned partition can change
the result. That is so in WHERE, and in the ON of a MERGE that has no clause for target rows without a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.jobs.dml_commit import (
    RowChanges,
    affected_partitions,
    dml_change,
    write_partitions,
)
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.query_statements import conform_query_rows
from bigquery_standin.jobs.scanned_bytes import check_bytes_billed, conjuncts
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator
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
from bigquery_standin.storage.segment_store import arrow_schema
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.version_relation import ROW_ID, relation_sql

_ACTION = "merge_action"  # the column in which DuckDB says what a MERGE has done to a row: INSERT, UPDATE or DELETE


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
    catalog, session, evaluator = run.catalog, run.state.session, run.evaluator
    table, version = _mutable_version(tree, run)
    kind = tree.key.upper()
    scanned = run.scan(read_query_of(tree))
    changes = row_changes(tree, evaluator, table, version)
    affected = affected_partitions(table, version, changes, session)
    scanned = scanned.plus(table, sum(version.partitions[key].bytes for key in affected))
    check_bytes_billed(scanned, run.state.maximum_bytes_billed)
    outcome = run.outcome(kind, scanned, changed_rows=changes.counts)
    if not any(changes.counts.values()):
        return outcome
    writes = write_partitions(table, version, changes, affected, session, catalog, catalog.segments.write)
    run.state.check_cancelled()
    return run.commit(table, dml_change(version, writes, catalog.next_us(table)), outcome)


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


def row_changes(tree: Mutation, evaluator: SqlEvaluator, table: TableId, version: TableVersion) -> RowChanges:
    """The rows that the statement changes.

    Raises InvalidQuery for errors that BigQuery finds while it runs the statement.
    """
    session, target = evaluator.state.session, _Target(tree, evaluator, table, version)
    match tree:
        case exp.Delete():
            removed = session.materialize(target.delete_sql())
            _, ids = session.run(f"SELECT {ROW_ID} FROM {removed}")
            return RowChanges(removed, arrow_schema(target.schema).empty_table(), {"deleted": ids.num_rows})
        case exp.Update():
            removed = session.materialize(target.update_sql())
            rows = target.new_rows(f"FROM {removed}")
            return RowChanges(removed, rows, {"updated": rows.num_rows})
        case _:
            copy = session.materialize(target.copy_sql())
            _, changed = session.run(target.merge_sql(copy))
            session.drop(copy)
            returned = session.register(changed)
            removed = session.materialize(f"SELECT {ROW_ID} FROM {returned} WHERE {ROW_ID} IS NOT NULL")
            rows = target.new_rows(f"FROM {returned} WHERE {_ACTION} <> 'DELETE'")
            return RowChanges(removed, rows, _counts(changed.column(_ACTION)))


class _Target:
    """One version of a statement's target, and DuckDB's SQL of the statement."""

    def __init__(self, tree: Mutation, evaluator: SqlEvaluator, table: TableId, version: TableVersion) -> None:
        self._tree = tree
        self.schema = version.settings.schema
        self._table = table
        self._session: DuckDbSession = evaluator.state.session
        self._evaluator = evaluator
        self._alias = quote_identifier(alias_of(tree))
        relation = relation_sql(table, version, evaluator.reader.catalog.segments, with_row_id=True)
        self._from = f"FROM {relation} AS {self._alias}"

    def _sql(self, node: exp.Expr) -> str:
        return self._evaluator.duckdb_sql(node, has_columns=True)

    def delete_sql(self) -> str:
        """SQL of the ids of the rows that the statement deletes."""
        return f"SELECT {ROW_ID} {self._from} WHERE {self._sql(where_of(self._tree))}"

    def update_sql(self) -> str:
        """SQL of the rows that the statement updates, with their ids and new values."""
        assigned = self._assigned(self._tree.expressions, self._from)
        values = [
            f"{assigned.get(column.name, f'{self._alias}.{quote_identifier(column.name)}')} "
            f"AS {quote_identifier(column.name)}"
            for column in self.schema
        ]
        where = self._sql(where_of(self._tree))
        return f"SELECT {', '.join(values)}, {self._alias}.{ROW_ID} {self._from} WHERE {where}"

    def copy_sql(self) -> str:
        """SQL of the target's rows, with their ids, that the MERGE may change."""
        filters = [f"({self._sql(part)})" for part in target_filters(self._tree)]
        return f"SELECT * {self._from}" + (f" WHERE {' AND '.join(filters)}" if filters else "")

    def merge_sql(self, copy: str) -> str:
        """DuckDB's MERGE into the table `copy`. It returns `merge_action`, and the inserted, new or deleted row."""
        if any(column.name.lower() == _ACTION for column in self.schema):
            raise NotImplementedConstruct(f"MERGE into a table with a column [{_ACTION}]")
        tree = self._tree
        from_clause = self._sql(exp.From(this=tree.args["using"].copy())).lstrip()
        source = f"(SELECT * {from_clause}) AS {quote_identifier(source_alias(tree))}"
        clauses = []
        for clause in clauses_of(tree):
            condition, then = clause.args.get("condition"), clause.args["then"]
            more = "" if condition is None else f" AND {self._sql(condition)}"
            if isinstance(then, exp.Update):
                matching = f"FROM {copy} AS {self._alias}, {source}"
                assigned = self._assigned(then.expressions, matching)
                pairs = (f"{quote_identifier(name)} = {value}" for name, value in assigned.items())
                action = f"UPDATE SET {', '.join(pairs)}"
            elif isinstance(then, exp.Insert):
                action = self._insert(then, f"FROM {source}")
            else:
                action = "DELETE"
            clauses.append(f"WHEN {clause_kind(clause)}{more} THEN {action}")
        on = self._sql(tree.args["on"])
        return f"MERGE INTO {copy} AS {self._alias} USING {source} ON {on} {' '.join(clauses)} RETURNING {_ACTION}, *"

    def new_rows(self, from_clause: str) -> pa.Table:
        """The rows that `from_clause` has, as the table stores them. Raises InvalidQuery for one that does not fit."""
        columns = ", ".join(quote_identifier(column.name) for column in self.schema)
        _, rows = self._session.run(f"SELECT {columns} {from_clause}")
        return conform_query_rows(rows, self.schema)

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

    def _assigned(self, assignments: Sequence[exp.EQ], from_clause: str) -> dict[str, str]:
        """SQL of the assigned values by column. `from_clause`: where the columns in the values come from."""
        fields = [self._column(item.this.name) for item in assignments]
        values = [self._sql(item.expression) for item in assignments]
        return dict(zip((field.name for field in fields), self._casts(values, fields, from_clause), strict=True))

    def _casts(self, values: Sequence[str], fields: Sequence[TableField], from_clause: str) -> list[str]:
        """SQL of values, each cast to its field's type. `from_clause`: where the columns in the values come from.

        Raises InvalidQuery if BigQuery would not assign a value, by its own type, to its field.
        """
        sql = f"SELECT {', '.join(f'{value} AS v{number}' for number, value in enumerate(values))} {from_clause}"
        self._evaluator.check_assignable(sql, fields)
        return [f"CAST({value} AS {to_duckdb_type(field)})" for value, field in zip(values, fields, strict=True)]

    def _column(self, name: str) -> TableField:
        field = next((column for column in self.schema if column.name.lower() == name.lower()), None)
        if field is None:
            raise InvalidQuery(f"Column {name} is not present in table {self._table.table}")
        return field


def _counts(actions: pa.ChunkedArray) -> dict[str, int]:
    """How many rows a MERGE has changed, by kind of change. `actions`: what DuckDB has done to each row."""
    found = {item["values"]: item["counts"] for item in pc.value_counts(actions).to_pylist()}
    return {f"{action.lower().removesuffix('e')}ed": found.get(action, 0) for action in ("INSERT", "UPDATE", "DELETE")}


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
