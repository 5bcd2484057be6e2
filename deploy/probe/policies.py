"""Assumptions about which properties of a table survive loads and clones: row access policies, labels and others."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import TableReference

from dedup_clone.warehouse.policies import READ_PAST
from deploy.probe.assumption import Register, expect
from deploy.probe.clones import swap
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()


def kept_properties(probe: ProbeDataset, table: str) -> dict[str, Any]:
    """The properties of a table that a load must not change."""
    found = probe.client.get_table(table)
    return {
        "description": found.description,
        "labels": dict(found.labels),
        "expiration": found.time_partitioning.expiration_ms,
        "clustering": found.clustering_fields,
        "policies": probe.row_policies(table),
    }


def add_policy(probe: ProbeDataset, table: str, policy: str, predicate: str) -> None:
    """Adds a row access policy for everybody."""
    project, dataset, table_id = table.split(".")
    reference = {"projectId": project, "datasetId": dataset, "tableId": table_id, "policyId": policy}
    probe.rest(
        f"datasets/{dataset}/tables/{table_id}/rowAccessPolicies",
        "POST",
        {"rowAccessPolicyReference": reference, "filterPredicate": predicate, "grantees": ["allAuthenticatedUsers"]},
    )


def table_with_policy(probe: ProbeDataset, name: str) -> str:
    """A table with one row and a row access policy that lets everybody see everything."""
    table = probe.new_table(name, [(probe.today, 1, 1)])
    add_policy(probe, table, "all_rows", "TRUE")
    return table


def is_cloned(probe: ProbeDataset, target: str, staging: str, at: datetime | None = None) -> bool:
    """Whether the caller may clone the table."""
    try:
        swap(probe, target, staging, at)
    except Forbidden:
        return False
    return True


@assumption(
    "truncate-data-keeps",
    statement="WRITE_TRUNCATE_DATA replaces the rows and keeps policies, description, labels, expiration",
    rule="Staging is loaded with it, never with WRITE_TRUNCATE.",
)
def truncate_data_keeps(probe: ProbeDataset) -> str:
    """Loads one row over another into a table with a row access policy."""
    table = table_with_policy(probe, "truncate_data")
    before = kept_properties(probe, table)
    loaded = probe.load(table, [(probe.today, 1, 2)])
    expect("what the table keeps", kept_properties(probe, table), before)
    expect("rows written", loaded.output_rows, 1)
    expect("rows in the table", probe.client.get_table(table).num_rows, 1)
    return "Rows were replaced; policy, description, labels, expiration and clustering stayed."


@assumption(
    "truncate-data-of-a-partition",
    statement="WRITE_TRUNCATE_DATA into table$YYYYMMDD replaces that day only and keeps the rest",
    rule="last_changed loads only the dates that differ.",
)
def truncate_data_of_a_partition(probe: ProbeDataset) -> str:
    """Loads one of two days again, into a table with a row access policy, and reads each day's rows from metadata."""
    table = table_with_policy(probe, "one_day")
    days = (probe.days_ago(1), probe.today)
    probe.load(table, [(days[0], 1, 1), (days[1], 1, 1)])
    before = kept_properties(probe, table)
    probe.load(f"{table}${days[1]:%Y%m%d}", [(days[1], 1, 2), (days[1], 2, 2)])
    expect("what the table keeps", kept_properties(probe, table), before)
    rows = probe.rows(
        f"SELECT partition_id, total_rows FROM {probe.view('PARTITIONS')} WHERE table_name = 'one_day' ORDER BY 1"
    )
    expect("rows of each day", rows, [(f"{days[0]:%Y%m%d}", 1), (f"{days[1]:%Y%m%d}", 2)])
    return "The other day and all that is kept stayed."


@assumption(
    "truncate-drops-policies",
    statement="WRITE_TRUNCATE drops row access policies",
    rule="Nothing here loads with WRITE_TRUNCATE into a table that people declare policies on.",
)
def truncate_drops_policies(probe: ProbeDataset) -> str:
    """Loads with WRITE_TRUNCATE into a table with a row access policy."""
    table = table_with_policy(probe, "truncate")
    probe.load(table, [(probe.today, 1, 2)], "WRITE_TRUNCATE")
    expect("policies left", probe.row_policies(table), [])
    return "The policy is gone."


@assumption(
    "clone-carries-policies",
    statement="A clone has its base's row access policies, and those of the replaced target are gone",
    rule="Policies are declared on staging and checked there before the swap.",
)
def clone_carries_policies(probe: ProbeDataset) -> str:
    """Clones a table with a policy over one without."""
    staging, target = table_with_policy(probe, "carried"), probe.new_table("carried_target", expiration_days=None)
    swap(probe, target, staging)
    expect("policies of the clone", probe.row_policies(target), ["all_rows"])
    return "The policy came with the clone."


@assumption(
    "clone-needs-true-filter",
    statement="An account from which row access policies hide rows cannot clone the table; with a filter TRUE it can",
    rule="Feeds with policies need a policy FILTER USING (TRUE) for the account that publishes.",
)
def clone_needs_true_filter(probe: ProbeDataset) -> str:
    """Clones a table whose policy shows no row, then adds a policy with the filter TRUE and clones it again."""
    staging, target = probe.new_table("hidden", [(probe.today, 1, 1)]), probe.table("hidden_target")
    add_policy(probe, staging, "no_rows", "id < 0")
    expect("cloned while rows are hidden", is_cloned(probe, target, staging), False)
    add_policy(probe, staging, "all_rows", "TRUE")
    expect("cloned with the filter TRUE", is_cloned(probe, target, staging), True)
    expect("policies of the clone", sorted(probe.row_policies(target)), ["all_rows", "no_rows"])
    return "Refused while a policy hid rows, carried out with the filter TRUE."


@assumption(
    "past-needs-permission",
    statement="The past of a table with row access policies is cloned by exactly those who have the permission for it",
    rule=f"The check staging_access asks BigQuery for {READ_PAST} before the swap.",
)
def past_needs_permission(probe: ProbeDataset) -> str:
    """Asks for the permission with testIamPermissions, and clones the table as of a time."""
    staging, target = table_with_policy(probe, "policy_past"), probe.table("policy_past_target")
    answer = probe.client.test_iam_permissions(TableReference.from_string(staging), [READ_PAST])
    permitted = READ_PAST in answer.get("permissions", [])
    expect("cloned as of a time", is_cloned(probe, target, staging, probe.now()), permitted)
    return f"This account {'has' if permitted else 'lacks'} the permission, and the clone as of a time agrees."
