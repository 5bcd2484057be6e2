"""Creates and drops row access policies, for DDL statements and for REST requests.

A policy's filter is checked but never evaluated, because the stand-in refuses reads for which it would have to be
evaluated (`storage/protection.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotFound, NotImplementedConstruct
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.statement_outcome import CommitInfoOf, Outcome
from bigquery_standin.sql.field_types import quote_identifier, to_duckdb_type
from bigquery_standin.sql.statements import CreateRowPolicy, DropRowPolicies, TableName
from bigquery_standin.sql.transpile import to_duckdb
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import RowPolicy, TableId, TableSettings, TableVersion
from bigquery_standin.storage.row_policy_rules import Policies, check_policy, with_policy
from bigquery_standin.storage.table_change import BuildChange, Change


def run_row_policy_statement(
    statement: CreateRowPolicy | DropRowPolicies,
    catalog: Catalog,
    session: DuckDbSession,
    table: TableId,
    commit_info_of: CommitInfoOf,
) -> Outcome:
    settings = catalog.get(table).settings
    if isinstance(statement, DropRowPolicies):
        outcome = Outcome(
            "DROP_ROW_ACCESS_POLICY",
            ddl_operation="DROP",
            ddl_table=table,
            dropped_row_policies=len(settings.row_policies),
        )
        build = _change(table, lambda _, __: ())
    else:
        outcome = Outcome(
            "CREATE_ROW_ACCESS_POLICY", ddl_operation="CREATE", ddl_table=table, ddl_row_policy=statement.name
        )
        check_predicate(statement.predicate, table, settings, session)
        build = add_policy_change(table, settings, statement.name, statement.text, statement.grantees)
    catalog.commit(table, build, commit_info_of(outcome))
    return outcome


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
    table: TableId, checked_settings: TableSettings, name: str, predicate: str, grantees: tuple[str, ...]
) -> BuildChange:
    """The change that adds a policy. Raises Invalid for a wrong name or grantee.

    `checked_settings`: the table's settings when the policy's filter was checked.
    """
    check_policy(name, grantees)

    def policies(settings: TableSettings, commit_us: int) -> Policies:
        if settings.schema != checked_settings.schema:
            raise Invalid(f"Table {table} changed its schema while row access policy {name} was made: try again.")
        return with_policy(table, settings.row_policies, RowPolicy(name, predicate, grantees, commit_us))

    return _change(table, policies)


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
