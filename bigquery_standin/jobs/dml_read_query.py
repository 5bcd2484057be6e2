"""Turns what an UPDATE, DELETE or MERGE reads into one SELECT, so that its scanned bytes can be counted.

A constant condition on the target's partition column prunes partitions only if no row in a pruned partition can change
the result. That is so in WHERE, and in the ON of a MERGE that has no clause for target rows without a match.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from bigquery_standin.jobs.table_scans import conjuncts
from bigquery_standin.sql.statements import (
    NOT_MATCHED_BY_SOURCE,
    NOT_MATCHED_BY_TARGET,
    Delete,
    Merge,
    MergeClause,
    MergeInsert,
    MergeUpdate,
    MutatingStatement,
    TableName,
    Update,
)

_DEFAULT_SOURCE_ALIAS = "__source"


def read_query_of(statement: MutatingStatement) -> exp.Select:
    """A SELECT with the statement's tables and columns, and with those of its filters that may prune partitions."""
    target = _table(statement.table, statement.alias)
    match statement:
        case Delete():
            return exp.Select(expressions=[exp.Literal.number(1)]).from_(target).where(statement.where.copy())
        case Update():
            values = [item.value.copy() for item in statement.assignments]
            return exp.Select(expressions=values).from_(target).where(statement.where.copy())
        case Merge():
            return _merge_read_query(statement, target)


def deletes_whole_partitions(statement: MutatingStatement, column: str | None, variables: Collection[str]) -> bool:
    """Whether this is a DELETE whose WHERE refers to nothing but the partition column, literals and script variables.

    `column`: the table's partition column; None for an unpartitioned table. `variables`: the names of the script
    variables, in lower case.
    """
    if not isinstance(statement, Delete) or column is None or statement.where.find(exp.Select) is not None:
        return False
    allowed_paths = ([column.lower()], [statement.alias.lower(), column.lower()])
    paths = ([part.name.lower() for part in reference.parts] for reference in statement.where.find_all(exp.Column))
    return all(path in allowed_paths or (len(path) == 1 and path[0] in variables) for path in paths)


def source_alias(statement: Merge) -> str:
    """The name by which the statement's expressions refer to the source of a MERGE."""
    return str(statement.source.args["from_"].this.alias_or_name) or _DEFAULT_SOURCE_ALIAS


def expressions_of(clause: MergeClause) -> Iterator[exp.Expression]:
    """The clause's condition and values."""
    if clause.condition is not None:
        yield clause.condition
    if isinstance(clause.action, MergeUpdate):
        yield from (item.value for item in clause.action.assignments)
    if isinstance(clause.action, MergeInsert):
        yield from clause.action.values or ()


def target_filters(statement: Merge) -> list[exp.Expr]:
    """The conditions in ON that keep a row of the target as it is; none if rows without a match may change."""
    return _filters(statement, statement.alias, NOT_MATCHED_BY_SOURCE)


def _source_filters(statement: Merge) -> list[exp.Expr]:
    return _filters(statement, source_alias(statement), NOT_MATCHED_BY_TARGET)


def _filters(statement: Merge, alias: str, kind_without_match: str) -> list[exp.Expr]:
    if any(clause.kind == kind_without_match for clause in statement.clauses):
        return []
    return [part for part in conjuncts(statement.condition) if _refers_only_to(part, alias)]


def _merge_read_query(statement: Merge, target: exp.Table) -> exp.Select:
    source = statement.source.args["from_"].this.copy()
    alias = source_alias(statement)
    if not source.alias:
        source.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    values: list[exp.Expr] = [value.copy() for clause in statement.clauses for value in expressions_of(clause)]
    if any(isinstance(c.action, MergeInsert) and c.action.values is None for c in statement.clauses):
        values.append(exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True)))
    filters = [part.copy() for part in (*target_filters(statement), *_source_filters(statement))]
    values += [part.copy() for part in conjuncts(statement.condition) if part not in filters]
    select = exp.Select(expressions=values or [exp.Literal.number(1)]).from_(target)
    select.append("joins", exp.Join(this=source, kind="CROSS"))
    return select.where(*filters) if filters else select


def _refers_only_to(condition: exp.Expr, alias: str) -> bool:
    """Whether the condition has columns, and all are qualified by this alias."""
    columns = list(condition.find_all(exp.Column))
    return bool(columns) and all(column.parts[0].name.lower() == alias.lower() for column in columns)


def _table(name: TableName, alias: str) -> exp.Table:
    return exp.table_(name.table, name.dataset, name.project, quoted=True, alias=exp.to_identifier(alias, quoted=True))
