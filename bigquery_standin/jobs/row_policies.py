"""Creates and drops row access policies.

A policy's filter is never evaluated, because the stand-in refuses reads for which it would have to be
(`storage/access.py`). Sources, in BigQuery's documentation: "Use row-level security"; REST resource rowAccessPolicies.
"""

from __future__ import annotations

from dataclasses import replace

from bigquery_standin.bigquery_errors import Duplicate
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.statements import CreateRowPolicy, DropRowPolicies
from bigquery_standin.storage.model import RowPolicy, TableVersion
from bigquery_standin.storage.table_history import Change


def create_policy(statement: CreateRowPolicy, run: StatementRun) -> Outcome:
    def build(current: TableVersion, commit_us: int) -> Change:
        if current.settings.row_policy(statement.name) is not None:
            raise Duplicate(f"Already Exists: Row access policy {statement.name}")
        added = RowPolicy(statement.name, statement.text, statement.grantees, commit_us)
        return _change(current, (*current.settings.row_policies, added))

    return run.change(run.target(statement.table), build, run.outcome("CREATE_ROW_ACCESS_POLICY"))


def drop_policies(statement: DropRowPolicies, run: StatementRun) -> Outcome:
    outcome = run.outcome("DROP_ROW_ACCESS_POLICY")
    return run.change(run.target(statement.table), lambda current, _: _change(current, ()), outcome)


def _change(current: TableVersion, policies: tuple[RowPolicy, ...]) -> Change:
    return Change(replace(current.settings, row_policies=policies), current.partitions, current.clone)
