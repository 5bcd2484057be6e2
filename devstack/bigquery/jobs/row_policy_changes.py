"""Creates and drops row access policies, for DDL statements and for REST requests.

A policy's filter is checked but never evaluated, because the stand-in refuses reads for which it would have to be
evaluated (`storage/protection.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from devstack.bigquery.bigquery_errors import Invalid, InvalidQuery, NotFound, NotImplementedConstruct
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.statement_outcome import CommitInfoOf, Outcome
from devstack.bigquery.sql.field_types import quote_identifier, to_duckdb_type
from devstack.bigquery.sql.statements import CreateRowPolicy, DropRowPolicy, TableName
from devstack.bigquery.sql.transpile import to_duckdb
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import RowPolicy, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.row_policy_rules import Policies, check_policy, find_policy, with_policy, without_policy
from devstack.bigquery.storage.table_change import BuildChange, Change


def run_row_policy_statement(
    statement: CreateRowPolicy | DropRowPolicy,
    catalog: Catalog,
    session: DuckDbSession,
    table: TableId,
    commit_info_of: CommitInfoOf,
) -> Outcome:
    if isinstance(statement, CreateRowPolicy):
        return _create(statement, catalog, session, table, commit_info_of)
    return _drop(statement, catalog, table, commit_info_of)


def check_predicate(predicate: exp.Expression, table: TableId, settings: TableSettings, session: DuckDbSession) -> None:
    """Raises StandInError unless the filter is a BOOL expression of the table's own columns."""
    if predicate.find(exp.Query) is not None:
        raise NotImplementedConstruct("subquery in the filter of a row access policy")
    if predicate.find(exp.Parameter, exp.Placeholder) is not None:
        raise InvalidQuery("Query parameters cannot be used in the filter of a row access policy")
    if not settings.schema:
        raise Invalid(f"Table {table} does not have a schema: a row access policy filters by its columns.")
    columns = ", ".join(f"CAST(NULL AS {to_duckdb_type(c)}) AS {quote_identifier(c.name)}" for c in settings.schema)
    (predicate_field,) = session.schema(f"SELECT {to_duckdb(predicate, _no_table)} FROM (SELECT {columns})")
    if predicate_field.sql_type() != "BOOL":
        raise InvalidQuery(f"FILTER USING must be of type BOOL, but is of type {predicate_field.sql_type()}")


def add_policy_change(
    table: TableId,
    checked_settings: TableSettings,
    name: str,
    predicate: str,
    grantees: tuple[str, ...],
    *,
    replaces: bool,
) -> BuildChange:
    """The change that adds a policy. Raises Invalid for a wrong name or grantee.

    `checked_settings`: the table's settings when the policy's filter was checked. `replaces`: whether the policy may
    replace one of the same name.
    """
    check_policy(name, grantees)

    def policies(settings: TableSettings, commit_us: int) -> Policies:
        if settings.schema != checked_settings.schema:
            raise Invalid(f"Table {table} changed its schema while row access policy {name} was made: try again.")
        new = RowPolicy(name, predicate, grantees, commit_us, commit_us)
        return with_policy(table, settings.row_policies, new, replace=replaces)

    return _change(table, policies)


def _without(table: TableId, name: str) -> BuildChange:
    return _change(table, lambda settings, _: without_policy(table, settings.row_policies, name))


def _create(
    statement: CreateRowPolicy, catalog: Catalog, session: DuckDbSession, table: TableId, commit_info_of: CommitInfoOf
) -> Outcome:
    settings = catalog.get(table).settings
    exists = find_policy(settings.row_policies, statement.name) is not None
    operation = "CREATE"
    if exists and statement.replace:
        operation = "REPLACE"
    if exists and statement.if_not_exists:
        operation = "SKIP"
    kind = "CREATE_ROW_ACCESS_POLICY"
    outcome = Outcome(kind, ddl_operation=operation, ddl_table=table, ddl_row_policy=statement.name)
    check_predicate(statement.predicate, table, settings, session)
    if operation != "SKIP":
        build = add_policy_change(
            table, settings, statement.name, statement.text, statement.grantees, replaces=statement.replace
        )
        catalog.commit(table, build, commit_info_of(outcome))
    return outcome


def _drop(statement: DropRowPolicy, catalog: Catalog, table: TableId, commit_info_of: CommitInfoOf) -> Outcome:
    policies = catalog.get(table).settings.row_policies
    outcome = Outcome("DROP_ROW_ACCESS_POLICY", ddl_operation="DROP", ddl_table=table, ddl_row_policy=statement.name)
    if statement.name is None:
        outcome = replace(outcome, dropped_row_policies=len(policies))
        build = _change(table, lambda _, __: ())
    elif statement.if_exists and find_policy(policies, statement.name) is None:
        return replace(outcome, ddl_operation="SKIP")
    else:
        build = _without(table, statement.name)
    catalog.commit(table, build, commit_info_of(outcome))
    return outcome


def _change(table: TableId, policies: Callable[[TableSettings, int], Policies]) -> BuildChange:
    """The change of a table's policies. `policies`: returns the new ones from the settings and the commit time."""

    def build(current: TableVersion | None, commit_us: int) -> Change:
        if current is None:
            raise NotFound(f"Not found: Table {table}")
        settings = replace(current.settings, row_policies=policies(current.settings, commit_us))
        return Change("row policies", settings, current.partitions, current.clone)

    return build


def _no_table(name: TableName, _: exp.Expression | None) -> str:
    raise InvalidQuery(f"Table [{name.table}] cannot be read in the filter of a row access policy")
