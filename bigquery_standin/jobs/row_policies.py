"""Creates and drops row access policies.

A policy's filter is checked but never evaluated, because the stand-in refuses reads for which it would have to be
evaluated (`storage/access.py`). Sources, in BigQuery's documentation: "Use row-level security"; REST resource
rowAccessPolicies.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from bigquery_standin.bigquery_errors import Duplicate, Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.field_types import quote_identifier, to_duckdb_type
from bigquery_standin.sql.statements import CreateRowPolicy, DropRowPolicies
from bigquery_standin.sql.transpile import to_duckdb
from bigquery_standin.sql.type_parser import TableName
from bigquery_standin.storage.model import RowPolicy, TableSettings, TableVersion
from bigquery_standin.storage.table_history import Change

_NAME = re.compile(r"\w{1,256}", re.ASCII)
_GRANTEE = re.compile(r"(?:user|serviceAccount|group|domain|principal|principalSet):\S+|allUsers|allAuthenticatedUsers")


def create_policy(statement: CreateRowPolicy, run: StatementRun) -> Outcome:
    """Adds a policy. Raises Invalid for a wrong name or grantee."""
    name = statement.name
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"Row access policy id [{name}] is not valid, expected [1 to 256 letters, digits and underscores]."
        )
    for grantee in statement.grantees:
        if not _GRANTEE.fullmatch(grantee):
            raise Invalid(
                f"Grantee [{grantee}] of row access policy [{name}] is not valid, expected [user:EMAIL, "
                "serviceAccount:EMAIL, group:EMAIL, domain:NAME, allAuthenticatedUsers or allUsers]."
            )

    def build(current: TableVersion, commit_us: int) -> Change:
        _check_predicate(statement.predicate, current.settings, run.state.session)
        if current.settings.row_policy(name) is not None:
            raise Duplicate(f"Already Exists: Row access policy {name}")
        added = RowPolicy(name, statement.text, statement.grantees, commit_us)
        return _change(current, (*current.settings.row_policies, added))

    return run.change(run.target(statement.table), build, run.outcome("CREATE_ROW_ACCESS_POLICY"))


def drop_policies(statement: DropRowPolicies, run: StatementRun) -> Outcome:
    outcome = run.outcome("DROP_ROW_ACCESS_POLICY")
    return run.change(run.target(statement.table), lambda current, _: _change(current, ()), outcome)


def _check_predicate(predicate: exp.Expression, settings: TableSettings, session: DuckDbSession) -> None:
    """Raises StandInError unless the filter is a BOOL expression of the table's own columns."""
    if predicate.find(exp.Query) is not None:
        raise NotImplementedConstruct("subquery in the filter of a row access policy")
    if predicate.find(exp.Parameter) is not None:
        raise InvalidQuery("Query parameters cannot be used in the filter of a row access policy")
    if not settings.schema:
        raise Invalid("The table does not have a schema: a row access policy filters by its columns.")
    columns = ", ".join(f"CAST(NULL AS {to_duckdb_type(c)}) AS {quote_identifier(c.name)}" for c in settings.schema)
    (predicate_field,) = session.schema(f"SELECT {to_duckdb(predicate, _no_table)} FROM (SELECT {columns})")
    if predicate_field.sql_type() != "BOOL":
        raise InvalidQuery(f"FILTER USING must be of type BOOL, but is of type {predicate_field.sql_type()}")


def _no_table(name: TableName, _: exp.Expression | None) -> str:
    raise InvalidQuery(f"Table [{name.table}] cannot be read in the filter of a row access policy")


def _change(current: TableVersion, policies: tuple[RowPolicy, ...]) -> Change:
    return Change(replace(current.settings, row_policies=policies), current.partitions, current.clone)
