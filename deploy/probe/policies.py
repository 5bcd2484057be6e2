"""Assumptions about what loads and clones keep: row access policies, description, labels, expiration."""

from __future__ import annotations

from typing import Any

from deploy.probe.assumption import Register, expect
from deploy.probe.clones import swap
from deploy.probe.world import World

assumption = Register()


def kept(world: World, table: str) -> dict[str, Any]:
    """What a load must leave as it is."""
    found = world.client.get_table(table)
    return {
        "description": found.description,
        "labels": dict(found.labels),
        "expiration": found.time_partitioning.expiration_ms,
        "clustering": found.clustering_fields,
        "policies": world.row_policies(table),
    }


def with_policy(world: World, name: str) -> str:
    """A table with one row and a row access policy that lets everybody see everything."""
    table = world.new_table(name, [(world.today, 1, 1)])
    dataset, table_id = table.split(".")[1:]
    reference = {"projectId": table.split(".")[0], "datasetId": dataset, "tableId": table_id, "policyId": "all_rows"}
    world.rest(
        f"datasets/{dataset}/tables/{table_id}/rowAccessPolicies",
        "POST",
        {"rowAccessPolicyReference": reference, "filterPredicate": "TRUE", "grantees": ["allAuthenticatedUsers"]},
    )
    return table


@assumption(
    "truncate-data-keeps",
    says="WRITE_TRUNCATE_DATA replaces the rows and keeps policies, description, labels, expiration (F5, F18)",
    rule="Staging is loaded with it, never with WRITE_TRUNCATE.",
)
def truncate_data_keeps(world: World) -> str:
    """Loads one row over another into a table with a row access policy."""
    table = with_policy(world, "truncate_data")
    before = kept(world, table)
    loaded = world.load(table, [(world.today, 1, 2)])
    expect("what the table keeps", kept(world, table), before)
    expect("rows written", loaded.output_rows, 1)
    expect("rows in the table", world.client.get_table(table).num_rows, 1)
    return "Rows were replaced; policy, description, labels, expiration and clustering stayed."


@assumption(
    "truncate-data-of-a-partition",
    says="WRITE_TRUNCATE_DATA into table$YYYYMMDD replaces that day only and keeps the rest (F18, inferred)",
    rule="last_changed loads only the dates that differ.",
)
def truncate_data_of_a_partition(world: World) -> str:
    """Loads one of two days again, into a table with a row access policy, and reads rows a day from metadata."""
    table = with_policy(world, "one_day")
    days = (world.days_ago(1), world.today)
    world.load(table, [(days[0], 1, 1), (days[1], 1, 1)])
    before = kept(world, table)
    world.load(f"{table}${days[1]:%Y%m%d}", [(days[1], 1, 2), (days[1], 2, 2)])
    expect("what the table keeps", kept(world, table), before)
    rows = world.rows(
        f"SELECT partition_id, total_rows FROM {world.view('PARTITIONS')} WHERE table_name = 'one_day' ORDER BY 1"
    )
    expect("rows a day", rows, [(f"{days[0]:%Y%m%d}", 1), (f"{days[1]:%Y%m%d}", 2)])
    return "The other day and all that is kept stayed."


@assumption(
    "truncate-drops-policies",
    says="WRITE_TRUNCATE drops row access policies (F5)",
    rule="Nothing here loads with WRITE_TRUNCATE into a table that people declare policies on.",
)
def truncate_drops_policies(world: World) -> str:
    """Loads with WRITE_TRUNCATE into a table with a row access policy."""
    table = with_policy(world, "truncate")
    world.load(table, [(world.today, 1, 2)], "WRITE_TRUNCATE")
    expect("policies left", world.row_policies(table), [])
    return "The policy is gone."


@assumption(
    "clone-carries-policies",
    says="A clone has its base's row access policies, and those of the replaced target are gone (F5)",
    rule="Policies are declared on staging and checked there before the swap.",
)
def clone_carries_policies(world: World) -> str:
    """Clones a table with a policy over one without."""
    staging, target = with_policy(world, "carried"), world.new_table("carried_target", expiration_days=None)
    swap(world, target, staging)
    expect("policies of the clone", world.row_policies(target), ["all_rows"])
    return "The policy came with the clone."
