"""Assumptions about which properties of a table survive loads and clones: row access policies, labels and others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import TableReference

from dedup_clone.warehouse.policies import READ_PAST
from deploy.probe.assumption import CannotTry, Register, expect
from deploy.probe.clones import swap
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()


def read_properties(probe: ProbeDataset, table: str) -> dict[str, Any]:
    """The properties of a table that a load must not change."""
    found = probe.client.get_table(table)
    return {
        "description": found.description,
        "labels": dict(found.labels),
        "expiration": found.time_partitioning.expiration_ms,
        "clustering": found.clustering_fields,
        "policies": probe.row_policies(table),
    }


@contextmanager
def keeping_properties(probe: ProbeDataset, table: str) -> Iterator[None]:
    """Raises DoesNotHold if the `with` block changes a property of the table that a load must not change."""
    before = read_properties(probe, table)
    yield
    expect("what the table keeps", read_properties(probe, table), before)


def add_policy(probe: ProbeDataset, table: str, policy: str, predicate: str) -> None:
    """Add a row access policy that shows everybody the rows for which `predicate` is true."""
    project, dataset, table_id = table.split(".")
    reference = {"projectId": project, "datasetId": dataset, "tableId": table_id, "policyId": policy}
    probe.rest(
        f"datasets/{dataset}/tables/{table_id}/rowAccessPolicies",
        "POST",
        {"rowAccessPolicyReference": reference, "filterPredicate": predicate, "grantees": ["allAuthenticatedUsers"]},
    )


def named_policy_tag(probe: ProbeDataset) -> str:
    """The policy tag that the user has named. Raises CannotTry without one."""
    if probe.policy_tag is None:
        raise CannotTry("No policy tag is named: add POLICY_TAG=projects/P/locations/L/taxonomies/T/policyTags/N.")
    return probe.policy_tag


def add_policy_tag(probe: ProbeDataset, table: str, column: str, tag: str) -> None:
    """Put the policy tag on a column. `table`: its name within the dataset."""
    path = f"datasets/{probe.name}/tables/{table}"
    fields = probe.rest(path)["schema"]["fields"]
    tagged = [{**f, "policyTags": {"names": [tag]}} if f["name"] == column else f for f in fields]
    probe.rest(path, "PATCH", {"schema": {"fields": tagged}})


def table_with_policy(probe: ProbeDataset, name: str) -> str:
    """A table with one row and a row access policy that lets everybody see everything."""
    table = probe.new_table(name, [(probe.today, 1, 1)])
    add_policy(probe, table, "all_rows", "TRUE")
    return table


def try_clone(probe: ProbeDataset, target: str, staging: str, at: datetime | None = None) -> bool:
    """Clone staging onto target, and return True; return False if BigQuery denies access."""
    try:
        swap(probe, target, staging, at)
    except Forbidden:
        return False
    return True


def may_read(probe: ProbeDataset, table: str, column: str = "number") -> bool:
    """Whether this account is permitted to read the column."""
    try:
        probe.query(f"SELECT {column} FROM `{table}`")
    except Forbidden:
        return False
    return True


def column_tags(probe: ProbeDataset, table: str) -> dict[str, list[str]]:
    """The policy tags of each column that has some."""
    fields = probe.client.get_table(table).schema
    return {field.name: list(field.policy_tags.names) for field in fields if field.policy_tags}


@assumption(
    "truncate-data-keeps",
    statement="WRITE_TRUNCATE_DATA replaces the rows and keeps policies, description, labels, expiration",
    rule="Staging is loaded with WRITE_TRUNCATE_DATA, never with WRITE_TRUNCATE.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py",),
    instead="Declare no policies, primary key and column descriptions in feed files: a load would remove them.",
)
def truncate_data_keeps(probe: ProbeDataset) -> str:
    """Replaces, by a load, the one row of a table with a row access policy."""
    table = table_with_policy(probe, "truncate_data")
    with keeping_properties(probe, table):
        loaded = probe.load(table, [(probe.today, 1, 2)])
    expect("rows written", loaded.output_rows, 1)
    expect("rows in the table", probe.client.get_table(table).num_rows, 1)
    return "The row was replaced; policy, description, labels, expiration and clustering are unchanged."


@assumption(
    "truncate-data-of-a-query",
    statement="WRITE_TRUNCATE_DATA as a query's disposition replaces the rows and keeps policies and properties",
    rule="Engine bigquery writes staging by a query.",
    code=("plugins/dedup_clone/engines/staging_job.py",),
    instead="Set `engine: spark`.",
)
def truncate_data_of_a_query(probe: ProbeDataset) -> str:
    """Replaces, by a query, the one row of a table with a row access policy."""
    table = table_with_policy(probe, "truncate_by_query")
    with keeping_properties(probe, table):
        probe.query("SELECT CURRENT_DATE() AS day, 7 AS id, 7 AS number", into=table)
    expect("rows of the table", probe.rows(f"SELECT id, number FROM `{table}`"), [(7, 7)])
    return "The row was replaced; policy, description, labels, expiration and clustering are unchanged."


@assumption(
    "truncate-data-of-a-partition",
    statement="WRITE_TRUNCATE_DATA into table$YYYYMMDD replaces that day's rows and changes nothing else",
    rule="In mode last_changed only dates with changed rows are loaded, if they are few.",
    code=("plugins/dedup_clone/publish/load.py",),
    instead="Set `update_id_mode: last_seen`, which loads the whole table.",
)
def truncate_data_of_a_partition(probe: ProbeDataset) -> str:
    """Loads two days into a table with a row access policy, then one of them again, and counts the rows of each day."""
    table = table_with_policy(probe, "one_day")
    days = (probe.days_ago(1), probe.today)
    probe.load(table, [(days[0], 1, 1), (days[1], 1, 1)])
    with keeping_properties(probe, table):
        probe.load(f"{table}${days[1]:%Y%m%d}", [(days[1], 1, 2), (days[1], 2, 2)])
    rows = probe.rows(
        f"SELECT partition_id, total_rows FROM {probe.view('PARTITIONS')} WHERE table_name = 'one_day' ORDER BY 1"
    )
    expect("rows of each day", rows, [(f"{days[0]:%Y%m%d}", 1), (f"{days[1]:%Y%m%d}", 2)])
    return "The rows of the day that was not loaded, and the table's policy and options, are unchanged."


@assumption(
    "truncate-drops-policies",
    statement="WRITE_TRUNCATE drops row access policies",
    rule="This project never loads with WRITE_TRUNCATE into a table that may have row access policies.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py",),
    instead="Nothing: the project uses WRITE_TRUNCATE_DATA.",
)
def truncate_drops_policies(probe: ProbeDataset) -> str:
    """Loads with WRITE_TRUNCATE into a table with a row access policy."""
    table = table_with_policy(probe, "truncate")
    probe.load(table, [(probe.today, 1, 2)], "WRITE_TRUNCATE")
    expect("policies left", probe.row_policies(table), [])
    return "The policy is gone."


@assumption(
    "clone-carries-policies",
    statement="A clone has the row access policies of its base, and none of the table that it replaces",
    rule="Policies are declared on staging and checked there before the swap.",
    code=("plugins/dedup_clone/publish/policy_checks.py", "sql/publish/swap_target.sql"),
    instead="Publish no feed with policies: target would show what they hide.",
)
def clone_carries_policies(probe: ProbeDataset) -> str:
    """Clones a table with a policy over a table with another policy."""
    staging, target = table_with_policy(probe, "carried"), probe.new_table("carried_target", expiration_days=None)
    add_policy(probe, target, "own_policy", "TRUE")
    swap(probe, target, staging)
    expect("policies of the clone", probe.row_policies(target), ["all_rows"])
    return "The clone has the policy of its base only."


@assumption(
    "clone-needs-true-filter",
    statement="An account can clone a table with row access policies only if it has one with the filter TRUE",
    rule="Feeds with policies need a policy FILTER USING (TRUE) for the account that publishes.",
    code=("plugins/dedup_clone/publish/policy_checks.py", "docs/security.md"),
    instead="Publish no feed with policies until a clone's rows were compared with those of its base.",
)
def clone_needs_true_filter(probe: ProbeDataset) -> str:
    """Tries to clone a table whose policy hides every row, adds a policy with the filter TRUE, and clones the table."""
    staging, target = probe.new_table("hidden", [(probe.today, 1, 1)]), probe.table("hidden_target")
    add_policy(probe, staging, "no_rows", "id < 0")
    expect("cloned while rows are hidden", try_clone(probe, target, staging), False)
    add_policy(probe, staging, "all_rows", "TRUE")
    expect("cloned with the filter TRUE", try_clone(probe, target, staging), True)
    expect("policies of the clone", sorted(probe.row_policies(target)), ["all_rows", "no_rows"])
    return "The clone was refused without the filter TRUE, and carried out with it."


@assumption(
    "past-needs-permission",
    statement=f"The past of a table with row access policies can be cloned by accounts with {READ_PAST} only",
    rule="The check staging_access asks BigQuery for this permission before the swap.",
    code=("plugins/dedup_clone/warehouse/policies.py", "plugins/dedup_clone/checks/table_checks.py"),
    instead="Grant roles/bigquery.admin on the dataset to the account that publishes feeds with policies.",
)
def past_needs_permission(probe: ProbeDataset) -> str:
    """Asks testIamPermissions whether this account has the permission, and tries to clone the table as of a time."""
    staging, target = table_with_policy(probe, "policy_past"), probe.table("policy_past_target")
    answer = probe.client.test_iam_permissions(TableReference.from_string(staging), [READ_PAST])
    permitted = READ_PAST in answer.get("permissions", [])
    expect("cloned as of a time", try_clone(probe, target, staging, probe.now()), permitted)
    if permitted:
        return "This account has the permission, and the clone was carried out."
    return "This account lacks the permission, and the clone was refused."


@assumption(
    "clone-needs-fine-grained-reader",
    statement="A table with a policy tag is loaded without, and cloned only with, the right to read the column",
    rule="Airflow's account needs Fine-Grained Reader on each policy tag; loads keep the tags.",
    code=("plugins/dedup_clone/publish/policy_checks.py", "docs/security.md"),
    instead="Declare no `column_tags`: let readers use an authorized view without the column.",
)
def clone_needs_fine_grained_reader(probe: ProbeDataset) -> str:
    """Puts a policy tag on a column, loads the table, reads the column, and clones the table."""
    tag = named_policy_tag(probe)
    staging, target = probe.new_table("tagged", [(probe.today, 1, 1)]), probe.table("tagged_target")
    add_policy_tag(probe, "tagged", "number", tag)
    probe.load(staging, [(probe.today, 1, 2)])
    expect("tags after a load", column_tags(probe, staging), {"number": [tag]})
    permitted = may_read(probe, staging)
    expect("cloned", try_clone(probe, target, staging), permitted)
    if not permitted:
        return "This account may not read the column, and the clone was refused."
    expect("tags of the clone", column_tags(probe, target), {"number": [tag]})
    return "This account may read the column, and the clone was carried out and has the tag."
