"""Computes which rows a MERGE changes.

For each matching pair of rows, and for each row without a match, the first WHEN clause for such rows whose condition is
true applies.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.jobs.ddl_statements import conform_query_rows
from devstack.bigquery.jobs.dml_read_query import expressions_of, source_alias
from devstack.bigquery.jobs.dml_target import DmlTarget
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.external_tables import FILE_NAME
from devstack.bigquery.jobs.row_changes import RowChanges
from devstack.bigquery.jobs.script_state import SqlEvaluator
from devstack.bigquery.sql.field_types import TableField, quote_identifier
from devstack.bigquery.sql.statements import (
    MATCHED,
    NOT_MATCHED_BY_SOURCE,
    NOT_MATCHED_BY_TARGET,
    Merge,
    MergeClause,
    MergeInsert,
    MergeUpdate,
)
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.version_relation import ROW_ID

# Columns of the temporary tables: the number of a row of the source, and of the WHEN clause that applies to a row.
_SOURCE_ROW = '"__source row"'
_CLAUSE = '"__clause"'


class MergeEvaluator:
    """Evaluates one MERGE on one version of its target.

    In its methods, `source`, `pairs` and `unmatched_target` are the names of temporary tables with the source's rows,
    the matching pairs and the target's rows without a match; in a dry run, subqueries that select these.
    """

    def __init__(self, statement: Merge, evaluator: SqlEvaluator, target: DmlTarget) -> None:
        self._statement = statement
        self._evaluator = evaluator
        self._session: DuckDbSession = evaluator.state.session
        self._target = target

    def changes(self) -> RowChanges:
        """The rows that the MERGE changes.

        Raises InvalidQuery for errors that BigQuery finds while it runs the statement.
        """
        source = self._session.materialize(self._source_sql())
        pairs = self._session.materialize(self._pairs_sql(source))
        self._target.refuse_repeated_rows(pairs, f"{_CLAUSE} IS NOT NULL")
        unmatched_target = self._session.materialize(self._unmatched_target_sql(pairs))
        selected = " UNION ALL ".join(
            f"SELECT {ROW_ID} FROM {table} WHERE {_CLAUSE} IS NOT NULL" for table in (pairs, unmatched_target)
        )
        removed = self._session.materialize(selected)
        parts, updated = [arrow_schema(self._target.schema).empty_table()], 0
        for number, clause in self._clauses(MATCHED) + self._clauses(NOT_MATCHED_BY_SOURCE):
            if isinstance(clause.action, MergeUpdate):
                values = self._session.materialize(self._updates_sql(number, clause, source, pairs, unmatched_target))
                parts.append(self._target.updated_rows(clause.action.assignments, values))
                updated += parts[-1].num_rows
        inserted = self._inserted_rows(source, pairs)
        counts = {
            "inserted": sum(rows.num_rows for rows in inserted),
            "updated": updated,
            "deleted": self._target.count(removed) - updated,
        }
        return RowChanges(removed, pa.concat_tables([*parts, *inserted]), counts)

    def _source_sql(self) -> str:
        from_clause = self._evaluator.duckdb_sql(self._statement.source.args["from_"]).lstrip()
        return f"SELECT *, row_number() OVER () AS {_SOURCE_ROW} {from_clause}"

    def _pairs_sql(self, source: str) -> str:
        """SQL of all matching pairs, each with the number of the clause that applies to it, or NULL."""
        columns = self._all_columns(source)
        clause_number = self._clause_number(self._clauses(MATCHED), columns)
        condition = self._evaluator.duckdb_sql(self._statement.condition, columns)
        alias = quote_identifier(source_alias(self._statement))
        return (
            f"SELECT {self._target.row_id}, {alias}.{_SOURCE_ROW}, {clause_number} AS {_CLAUSE} "
            f"FROM {self._target.relation} JOIN {source} AS {alias} ON {condition}"
        )

    def _unmatched_target_sql(self, pairs: str) -> str:
        """SQL of the target's rows without a match, each with the number of the clause that applies to it, or NULL."""
        clause = self._clause_number(self._clauses(NOT_MATCHED_BY_SOURCE), self._target.columns)
        return (
            f"SELECT {self._target.row_id}, {clause} AS {_CLAUSE} FROM {self._target.relation} "
            f"ANTI JOIN {pairs} AS _pairs ON {self._target.same_row('_pairs')}"
        )

    def _updates_sql(self, number: int, clause: MergeClause, source: str, pairs: str, unmatched_target: str) -> str:
        """SQL of the ids of the rows that an UPDATE clause changes, each with the values assigned to that row."""
        assert isinstance(clause.action, MergeUpdate)  # the caller selects clauses with this action
        selected = pairs if clause.kind == MATCHED else unmatched_target
        condition = f"{self._target.same_row('_selected')} AND _selected.{_CLAUSE} = {number}"
        relations = f"{self._target.relation} JOIN {selected} AS _selected ON {condition}"
        columns = self._target.columns
        if clause.kind == MATCHED:
            alias = quote_identifier(source_alias(self._statement))
            relations += f" JOIN {source} AS {alias} ON {alias}.{_SOURCE_ROW} = _selected.{_SOURCE_ROW}"
            columns = self._all_columns(source)
        return self._target.values_sql(clause.action.assignments, columns, relations)

    def _inserted_rows(self, source: str, pairs: str) -> list[pa.Table]:
        """The rows that each clause WHEN NOT MATCHED BY TARGET inserts."""
        clauses = self._clauses(NOT_MATCHED_BY_TARGET)
        alias = quote_identifier(source_alias(self._statement))
        inserted_rows: list[pa.Table] = []
        if not clauses:
            return inserted_rows
        clause_number = self._clause_number(clauses, self._source_columns(source))
        unmatched = self._session.materialize(
            f"SELECT {alias}.*, {clause_number} AS {_CLAUSE} FROM {source} AS {alias} "
            f"ANTI JOIN {pairs} AS _pairs ON {alias}.{_SOURCE_ROW} = _pairs.{_SOURCE_ROW}"
        )
        for number, clause in clauses:
            targets, values = self._insert_values(clause, source)
            from_clause = f"FROM {unmatched} AS {alias} WHERE {alias}.{_CLAUSE} = {number}"
            casts = self._target.checked_casts(values, targets, from_clause)
            columns = [f"{c} AS {quote_identifier(t.name)}" for c, t in zip(casts, targets, strict=True)]
            _, inserted = self._session.run(f"SELECT {', '.join(columns)} {from_clause}")
            inserted_rows.append(conform_query_rows(inserted, self._target.schema))
        return inserted_rows

    def _insert_values(self, clause: MergeClause, source: str) -> tuple[tuple[TableField, ...], list[str]]:
        """The columns into which an INSERT writes, and SQL of their values. Raises InvalidQuery if they do not fit."""
        assert isinstance(clause.action, MergeInsert)  # NOT MATCHED BY TARGET has no other action
        columns = self._source_columns(source)
        targets = tuple(self._target.column(name) for name in clause.action.columns) or self._target.schema
        if len({target.name for target in targets}) != len(targets):
            raise InvalidQuery(f"INSERT names a column twice: [{', '.join(clause.action.columns)}]")
        if clause.action.values is None:
            alias = quote_identifier(source_alias(self._statement))
            values = [f"{alias}.{quote_identifier(name)}" for name in columns if name.upper() != FILE_NAME]
        else:
            values = [
                self._evaluator.duckdb_sql(value, {*columns, source_alias(self._statement)})
                for value in clause.action.values
            ]
        if len(values) != len(targets):
            raise InvalidQuery(
                f"Inserted row has wrong column count; Has [{len(values)}], expected [{len(targets)}]: "
                f"[{', '.join(target.name for target in targets)}]"
            )
        return targets, values

    def check_names_and_types(self) -> None:
        """Check the names and types of the statement in a dry run, without running it."""
        source = f"({self._source_sql()})"
        pairs = f"({self._pairs_sql(source)})"
        self._session.schema(self._pairs_sql(source))
        unmatched_target = f"({self._unmatched_target_sql(pairs)})"
        self._session.schema(self._unmatched_target_sql(pairs))
        inserting = self._clause_number(self._clauses(NOT_MATCHED_BY_TARGET), self._source_columns(source))
        self._session.schema(f"SELECT {inserting} FROM {source} AS {quote_identifier(source_alias(self._statement))}")
        for number, clause in enumerate(self._statement.clauses):
            if isinstance(clause.action, MergeUpdate):
                self._session.schema(self._updates_sql(number, clause, source, pairs, unmatched_target))
            elif isinstance(clause.action, MergeInsert):
                targets, values = self._insert_values(clause, source)
                self._target.checked_casts(
                    values, targets, f"FROM {source} AS {quote_identifier(source_alias(self._statement))}"
                )

    def _clauses(self, kind: str) -> list[tuple[int, MergeClause]]:
        """The clauses of this kind, with their numbers. Raises InvalidQuery if one has a correlated subquery."""
        clauses = [(number, clause) for number, clause in enumerate(self._statement.clauses) if clause.kind == kind]
        for _, clause in clauses:
            for expression in expressions_of(clause):
                _refuse_correlation(expression, {self._statement.alias.lower(), source_alias(self._statement).lower()})
        return clauses

    def _clause_number(self, clauses: list[tuple[int, MergeClause]], columns: Collection[str]) -> str:
        """SQL of the number of the first of these clauses whose condition is true, NULL if none is."""
        branches = [
            f"WHEN {'TRUE' if c.condition is None else self._evaluator.duckdb_sql(c.condition, columns)} THEN {number}"
            for number, c in clauses
        ]
        return f"CASE {' '.join(branches)} END" if branches else "CAST(NULL AS INTEGER)"

    def _source_columns(self, source: str) -> list[str]:
        fields = self._session.schema(f"SELECT * EXCLUDE ({_SOURCE_ROW}) FROM {source}")
        return [field.name for field in fields]

    def _all_columns(self, source: str) -> set[str]:
        """The names that an expression about a matching pair may refer to."""
        return self._target.columns | set(self._source_columns(source)) | {source_alias(self._statement)}


def _refuse_correlation(expression: exp.Expression, aliases: set[str]) -> None:
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
