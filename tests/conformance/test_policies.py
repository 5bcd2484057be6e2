"""Row access policies and policy tags: what loads and clones keep of them, and what they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import TableReference

from dedup_clone.warehouse.row_policies import READ_PAST
from tests.conformance.policies import (
    add_policy,
    add_policy_tag,
    column_tags,
    may_read,
    named_policy_tag,
    row_policies,
)
from tests.conformance.rules import rule
from tests.conformance.sandbox import Sandbox

JOBS = "plugins/dedup_clone/publish/attempt_jobs.py"
POLICY_CHECKS = "plugins/dedup_clone/publish/early_checks.py"
TRUNCATE_DATA = "REST resource jobs; BigQueryAuditMetadata.WriteDisposition"
ROW_FEATURES = "Using row-level security with other BigQuery features"


@contextmanager
def keeping_properties(sandbox: Sandbox, table: str) -> Iterator[None]:
    """Assert that the `with` block changes no property that a load must not change."""

    def properties() -> dict[str, Any]:
        found = sandbox.client.get_table(table)
        return {
            "description": found.description,
            "labels": dict(found.labels),
            "expiration": found.time_partitioning.expiration_ms,
            "clustering": found.clustering_fields,
            "policies": row_policies(sandbox, table),
        }

    before = properties()
    yield
    assert properties() == before


def table_with_policy(sandbox: Sandbox, name: str) -> str:
    """A table with one row and a row access policy that lets everybody see everything."""
    table = sandbox.new_table(name, [(sandbox.today, 1, 1)])
    add_policy(sandbox, table, "all_rows", "TRUE")
    return table


def is_cloned(sandbox: Sandbox, target: str, staging: str, at: datetime | None = None) -> bool:
    """Clone staging onto target. Returns whether BigQuery permits it."""
    as_of, parameters = (" FOR SYSTEM_TIME AS OF @at", {"at": at}) if at else ("", {})
    try:
        sandbox.query(f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`{as_of}", parameters)
    except Forbidden:
        return False
    return True


@rule(
    TRUNCATE_DATA,
    JOBS,
    "Declare no policies, primary key and column descriptions in feed files: a load would remove them.",
)
def test_a_load_keeps_policies_and_options(sandbox: Sandbox) -> None:
    """WRITE_TRUNCATE_DATA replaces the rows and keeps policies, description, labels, expiration."""
    table = table_with_policy(sandbox, "truncate_data")
    with keeping_properties(sandbox, table):
        assert sandbox.load(table, [(sandbox.today, 1, 2)]).output_rows == 1
    assert sandbox.client.get_table(table).num_rows == 1


@rule(TRUNCATE_DATA, "plugins/dedup_clone/engines/staging_job.py", "Set `engine: spark`.")
def test_a_query_keeps_policies_and_options(sandbox: Sandbox) -> None:
    """WRITE_TRUNCATE_DATA as a query's disposition replaces the rows and keeps policies and properties."""
    table = table_with_policy(sandbox, "truncate_by_query")
    with keeping_properties(sandbox, table):
        sandbox.query("SELECT CURRENT_DATE() AS day, 7 AS id, 7 AS number", into=table)
    assert sandbox.rows(f"SELECT id, number FROM `{table}`") == [(7, 7)]


@rule(
    "none",
    "plugins/dedup_clone/publish/load.py",
    "Set `update_id_mode: last_seen`, which loads the whole table.",
)
def test_a_load_replaces_one_partition(sandbox: Sandbox) -> None:
    """WRITE_TRUNCATE_DATA into table$YYYYMMDD replaces that day's rows only, and refuses rows of another day."""
    table = table_with_policy(sandbox, "one_day")
    days = (sandbox.days_ago(1), sandbox.today)
    sandbox.load(table, [(days[0], 1, 1), (days[1], 1, 1)])
    partition = f"{table}${days[1]:%Y%m%d}"
    with keeping_properties(sandbox, table):
        sandbox.load(partition, [(days[1], 1, 2), (days[1], 2, 2)])
    assert sandbox.partitions("one_day") == {f"{days[0]:%Y%m%d}": 1, f"{days[1]:%Y%m%d}": 2}
    with pytest.raises(Exception, match=r"(?i)partition"):
        sandbox.load(partition, [(days[0], 1, 3)])
    assert sandbox.partitions("one_day") == {f"{days[0]:%Y%m%d}": 1, f"{days[1]:%Y%m%d}": 2}


@rule("Introduction to row-level security", JOBS, "Nothing: the product uses WRITE_TRUNCATE_DATA.")
def test_write_truncate_drops_policies(sandbox: Sandbox) -> None:
    """WRITE_TRUNCATE drops row access policies."""
    table = table_with_policy(sandbox, "truncate")
    sandbox.load(table, [(sandbox.today, 1, 2)], "WRITE_TRUNCATE")
    assert row_policies(sandbox, table) == []


@rule(
    "Create table clones; Introduction to row-level security",
    f"{POLICY_CHECKS} sql/publish/swap_target.sql",
    "Publish no feed with policies: target would show what they hide.",
)
def test_a_clone_has_the_policies_of_its_base(sandbox: Sandbox) -> None:
    """A clone has the row access policies of its base, and none of the table that it replaces."""
    staging = table_with_policy(sandbox, "carried")
    target = sandbox.new_table("carried_target", expiration_days=None)
    add_policy(sandbox, target, "own_policy", "TRUE")
    assert is_cloned(sandbox, target, staging)
    assert row_policies(sandbox, target) == ["all_rows"]


@rule(
    ROW_FEATURES,
    f"{POLICY_CHECKS} docs/deploy.md",
    "Publish no feed with policies until a clone's rows were compared with those of its base.",
)
def test_a_clone_needs_the_true_filter(sandbox: Sandbox) -> None:
    """A table with row access policies is cloned, and changed by DML, only by who has one with the filter TRUE."""
    staging, target = sandbox.new_table("hidden", [(sandbox.today, 1, 1)]), sandbox.table("hidden_target")
    add_policy(sandbox, staging, "no_rows", "id < 0")
    assert not is_cloned(sandbox, target, staging)
    with pytest.raises(Forbidden):
        sandbox.query(f"DELETE FROM `{staging}` WHERE id = 1")
    add_policy(sandbox, staging, "all_rows", "TRUE")
    assert is_cloned(sandbox, target, staging)
    assert sorted(row_policies(sandbox, target)) == ["all_rows", "no_rows"]


@rule(
    "Time travel; BigQuery IAM roles",
    "plugins/dedup_clone/warehouse/metadata.py plugins/dedup_clone/checks/table_checks.py",
    "Grant roles/bigquery.admin on the dataset to the account that publishes feeds with policies.",
)
def test_the_past_needs_a_permission(sandbox: Sandbox) -> None:
    """The past of a table with row access policies can be cloned by who has overrideTimeTravelRestrictions only."""
    staging, target = table_with_policy(sandbox, "policy_past"), sandbox.table("policy_past_target")
    answer = sandbox.client.test_iam_permissions(TableReference.from_string(staging), [READ_PAST])
    permitted = READ_PAST in answer.get("permissions", [])
    sandbox.notes.append(f"This account {'has' if permitted else 'lacks'} the permission.")
    assert is_cloned(sandbox, target, staging, sandbox.now()) == permitted


@rule(
    "Impact on writes with column-level access control",
    f"{POLICY_CHECKS} docs/deploy.md",
    "Declare no `column_tags`: let readers use an authorized view without the column.",
)
def test_a_clone_needs_fine_grained_reader(sandbox: Sandbox) -> None:
    """A table with a policy tag is loaded without, and cloned only with, the right to read the column."""
    tag = named_policy_tag(sandbox)
    staging, target = sandbox.new_table("tagged", [(sandbox.today, 1, 1)]), sandbox.table("tagged_target")
    add_policy_tag(sandbox, "tagged", "number", tag)
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    assert column_tags(sandbox, staging) == {"number": [tag]}
    permitted = may_read(sandbox, staging, "number")
    sandbox.notes.append(f"This account may {'' if permitted else 'not '}read the column.")
    assert is_cloned(sandbox, target, staging) == permitted
    if permitted:
        assert column_tags(sandbox, target) == {"number": [tag]}


@rule(
    "REST method rowAccessPolicies.list",
    "plugins/dedup_clone/warehouse/metadata.py",
    "Declare at most as many row access policies as one page has.",
)
def test_policies_are_listed_in_pages(sandbox: Sandbox) -> None:
    """rowAccessPolicies.list answers in pages."""
    add_policy(sandbox, table_with_policy(sandbox, "paged"), "no_rows", "id < 0")
    path = "/tables/paged/rowAccessPolicies"
    first = sandbox.rest(path, pageSize=1)
    second = sandbox.rest(path, pageSize=1, pageToken=first["nextPageToken"])
    found = [page["rowAccessPolicies"][0]["rowAccessPolicyReference"]["policyId"] for page in (first, second)]
    assert sorted(found) == ["all_rows", "no_rows"]
    assert not second.get("nextPageToken")
