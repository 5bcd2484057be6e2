"""What somebody has set on the tables: what the feed declares is on every target, the rest stops a publish in time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud import bigquery
from google.cloud.bigquery.table import PrimaryKey, TableConstraints
from pydantic import ValidationError

from bigquery_standin.client import STAND_IN_USER, Control
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation
from testkit import runs, step_faults
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from testkit.server_clients import FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL
from tests.contract.publish.existing_tables import column, describe, with_columns

KMS_KEY = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
FIRST, SECOND = [row(7, 1), row(7, 2)], [row(8, 1, 30), row(8, 3)]
DECLARED: dict[str, Any] = {
    "primary_key": True,
    "options": {"friendly_name": "Attributes", "labels": {"team": "stores"}, "require_partition_filter": True},
}
KEYS = ["date", "product_id", "store_id", "attribute_id"]
DESCRIPTION = "What a shop measured."
BY_SQL = {"replay": True, "reason": "without Spark", "engine": "bigquery"}


def found(world: FeedOnStandIn, name: str = "") -> bigquery.Table:
    """A table of the feed, by default target."""
    return world.bigquery.get_table(f"local-dev.warehouse.{name or world.feed.target}")


def change(world: FeedOnStandIn, field: str, value: Any) -> None:
    """Change a field of target, as somebody does by hand."""
    table = found(world)
    setattr(table, field, value)
    world.bigquery.update_table(table, [field])


def add_column(world: FeedOnStandIn) -> None:
    change(world, "schema", [*found(world).schema, bigquery.SchemaField("note", "STRING")])


def add_row_policy(world: FeedOnStandIn, condition: str = "TRUE", name: str = "everything", table: str = "") -> None:
    world.query(
        f"CREATE ROW ACCESS POLICY {name} ON .{table or world.feed.target} GRANT TO ('{STAND_IN_USER}') "
        f"FILTER USING ({condition})"
    )


SET_BY_HAND: dict[str, tuple[Callable[[FeedOnStandIn], None], str, str]] = {
    "label": (
        lambda world: world.label(team="stores"),
        "label [team]: stores",
        "declare label in table.options.labels",
    ),
    "name": (
        lambda world: change(world, "friendly_name", "Attributes"),
        "friendly name: Attributes",
        "table.options.friendly_name",
    ),
    "filter": (
        lambda world: change(world, "require_partition_filter", True),
        "require_partition_filter: true",
        "table.options.require_partition_filter",
    ),
    "key": (
        lambda world: change(world, "table_constraints", TableConstraints(PrimaryKey(KEYS), None)),
        "primary key: date, product_id, store_id, attribute_id",
        "table.primary_key",
    ),
    "description": (
        lambda world: describe(world, world.feed.target, description=DESCRIPTION),
        f"description of column [attr_value]: {DESCRIPTION}",
        "the column's description",
    ),
    "row policy": (
        add_row_policy,
        f"row access policy [everything]: TRUE for {STAND_IN_USER}",
        "table.policies.row_access",
    ),
    "column": (add_column, "column [note]: added by hand", "table of your own"),
}
OPTIONS = ("label", "name", "filter", "key", "description")


@pytest.mark.parametrize("names", [("label", "name", "filter", "key"), ("description", "row policy", "column")])
def test_what_the_swap_would_remove_stops_the_publish_and_says_what_to_declare(
    world: FeedOnStandIn, names: tuple[str, ...]
) -> None:
    world.publish(world.land(7, FIRST))
    run = runs.publish(world, world.land(8, SECOND)).until("load")
    for name in names:
        SET_BY_HAND[name][0](world)
    third = world.land(9, SECOND)
    for step in (lambda: run.step("check"), lambda: world.resolve(third)):
        with pytest.raises(CheckFailed) as refused:
            step()
        assert "target_options: [" in str(refused.value)
        for _, text, declared_in in (SET_BY_HAND[name] for name in names):
            assert (text in str(refused.value), declared_in in str(refused.value)) == (True, True), text
    assert world.live() == "1"


def test_declared_options_are_carried_until_they_are_no_longer_declared(world: FeedOnStandIn) -> None:
    """Also those that were set by hand before they were declared."""
    world.publish(world.land(7, FIRST))
    for what in OPTIONS:
        SET_BY_HAND[what][0](world)
    before = found(world)
    world.feed = with_columns(world.feed, attr_value=column("attr_value", "INT64", description=DESCRIPTION))
    world.configure(table=DECLARED)
    world.publish(world.land(8, SECOND))
    for rolled_back in (False, True):
        table = found(world)
        assert (table.friendly_name, table.labels["team"]) == ("Attributes", "stores")
        assert table.require_partition_filter is True
        if not rolled_back:
            assert table.schema[4].description == DESCRIPTION
            assert (table.schema, table.table_constraints) == (before.schema, before.table_constraints)
            assert world.roll_back(1).restores == 1
    current = world.state.read("CURRENT")
    world.state.write("CURRENT", json.dumps({**current, "staging": {**current["staging"], "holds": None}}))
    world.publish(world.land(9, [row(9, 1, 90)]), **{**BY_SQL, "engine": "merge"})  # reads a target with a filter
    sql = f"SELECT product_id, attr_value FROM .{world.feed.target} WHERE date >= '{TODAY}' ORDER BY 1"
    assert world.query(sql) == [(1, 90), (2, 20)]
    world.configure(table={"options": {}, "primary_key": False})
    world.publish(world.land(10, [row(10, 1, 30), row(10, 3)]))
    table = found(world)
    assert (table.friendly_name, table.labels.get("team"), table.require_partition_filter) == (None, None, None)
    assert table.table_constraints.primary_key.columns == KEYS  # it is still on staging


def test_tables_that_expire_by_a_default_of_their_dataset_are_not_published(world: FeedOnStandIn) -> None:
    dataset = world.bigquery.get_dataset("warehouse")
    dataset.default_table_expiration_ms = 86_400_000
    dataset = world.bigquery.update_dataset(dataset, ["default_table_expiration_ms"])
    name = world.land(7, FIRST)
    try:
        with pytest.raises(CheckFailed, match=r"table_expiration: \[\w+_staging: expires .*default_table_expiration=0"):
            world.publish(name)
    finally:
        dataset.default_table_expiration_ms = None
        world.bigquery.update_dataset(dataset, ["default_table_expiration_ms"])
    world.query(f"ALTER TABLE .{world.feed.staging} SET OPTIONS (expiration_timestamp = NULL)")
    assert world.publish(name, run_id="again").generation > 1
    assert found(world).expires is None


def test_all_tables_of_a_feed_have_its_kms_key(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.configure(table={"options": {"kms_key": KMS_KEY}})
    run = runs.publish(world, world.land(8, SECOND), **BY_SQL).until("dedup")
    incoming = found(world, f"{world.feed.target}_incoming_{run.attempt}")
    run.finish()
    keys = [table.encryption_configuration for table in (incoming, found(world, world.feed.staging), found(world))]
    assert [key and key.kms_key_name for key in keys] == [KMS_KEY] * 3


# -- Policies --

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
ROW_POLICY, TRUE_FILTER = "own_stores", "dedup_clone_publisher"


@pytest.fixture
def governed(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed that declares a row access policy and a column's tag."""
    world.configure(table={"policies": {"row_access": (ROW_POLICY,), "column_tags": {"attr_value": TAG}}})
    return world


@pytest.fixture
def control(world: FeedOnStandIn) -> Iterator[Control]:
    yield world.control
    world.control.clear_grants()


def let_publish(world: FeedOnStandIn, control: Control) -> None:
    """What docs/deploy.md asks for: a filter TRUE, and the permissions on the past and on tagged columns."""
    add_row_policy(world, "TRUE", TRUE_FILTER, world.feed.staging)
    control.grant(OVERRIDE_TIME_TRAVEL)
    control.grant(FINE_GRAINED_READ)


def protect(world: FeedOnStandIn) -> None:
    """What whoever governs the data does, once, with a staging that a first run has made."""
    world.query(
        f"CREATE ROW ACCESS POLICY {ROW_POLICY} ON .{world.feed.staging} GRANT TO ('group:stores@example.com') "
        "FILTER USING (store_id = 2072)"
    )
    set_tags(world, [TAG])


def set_tags(world: FeedOnStandIn, tags: list[str]) -> None:
    describe(world, world.feed.staging, policyTags={"names": tags})


def policy_checks(world: FeedOnStandIn, attempt: str) -> dict[str, str]:
    checks = {**world.state.checks(attempt), **world.state.checks(attempt, "after")}
    return {name: check["level"] for name, check in checks.items() if name.endswith("_policies")}


def publish_first(world: FeedOnStandIn, control: Control) -> None:
    """The first run makes staging and loads nothing; the policies are made; the load runs again."""
    run = runs.publish(world, world.land(7, FIRST)).until("dedup")
    with pytest.raises(CheckFailed, match=r"staging_policies(?s:.*)clear the run"):
        run.step("load")
    assert found(world, world.feed.staging).num_rows == 0, "readers of the dataset would see what target hides"
    assert world.live() is None
    protect(world)
    let_publish(world, control)
    run.finish()
    assert policy_checks(world, run.attempt) == {"staging_policies": "pass", "target_policies": "pass"}


def test_declared_policies_are_on_staging_and_on_every_target(governed: FeedOnStandIn, control: Control) -> None:
    publish_first(governed, control)
    record = governed.publish(governed.land(8, SECOND))
    assert (record.generation, record.rows) == (2, 3)
    for attempt in (record.attempt, governed.roll_back(1).attempt):
        assert policy_checks(governed, attempt)["target_policies"] == "pass"
        for table in (governed.feed.staging, governed.feed.target):
            # Pages of one policy: the product follows the page tokens.
            names, tags = step_faults.policies_of(governed, table, page_size=1)
            assert (names, tags) == ((ROW_POLICY, TRUE_FILTER), {"attr_value": TAG})
    control.clear_grants()
    with pytest.raises(Forbidden, match=TAG):
        governed.rows()


def test_a_publisher_that_may_not_read_the_past_of_all_rows_does_not_swap(
    governed: FeedOnStandIn, control: Control
) -> None:
    """The check finds the missing filter TRUE and the missing permission; tags are first checked by the clone."""
    run = runs.publish(governed, governed.land(7, FIRST)).until("dedup")
    protect(governed)
    run.until("load")
    with pytest.raises(CheckFailed, match=rf"staging_access(?s:.*)FILTER USING \(TRUE\).*{OVERRIDE_TIME_TRAVEL}"):
        run.step("check")
    let_publish(governed, control)
    run.until("check")
    control.clear_grants()
    with pytest.raises(Forbidden, match=OVERRIDE_TIME_TRAVEL):
        run.step("swap")
    control.grant(OVERRIDE_TIME_TRAVEL)
    with pytest.raises(Forbidden, match=f"fine-grained read access to column attr_value .*{TAG}"):
        run.swap(number=2)
    assert governed.live() is None


@pytest.mark.parametrize("lost", ["row access policies", "column tags"])
def test_a_staging_that_lost_a_policy_is_not_published(governed: FeedOnStandIn, control: Control, lost: str) -> None:
    publish_first(governed, control)
    run = runs.publish(governed, governed.land(8, SECOND)).until("load")
    if lost == "column tags":
        set_tags(governed, [])
    else:
        governed.query(f"DROP ALL ROW ACCESS POLICIES ON .{governed.feed.staging}")
    third = governed.land(9, SECOND)
    for step in (lambda: run.step("check"), lambda: governed.resolve(third)):  # the next run before its dedup
        with pytest.raises(CheckFailed, match=f"staging_policies(?s:.*){lost} (own_stores|attr_value)"):
            step()
    assert governed.live() == "1"


def test_an_engine_in_sql_is_refused_for_policies_declared_or_not(governed: FeedOnStandIn) -> None:
    """Its table of deliveries would show what target hides, and its query reads only the rows that policies show."""
    for engine in ("bigquery", "merge"):
        with pytest.raises(ConfigurationError, match="every reader of the dataset"):
            governed.resolve(governed.land(7, FIRST), **{**BY_SQL, "engine": engine})
        with pytest.raises(ValidationError, match="every reader of the dataset"):
            governed.configure(engine=engine)
    governed.configure(table={"policies": {"row_access": (), "column_tags": {}}})
    governed.publish(governed.land(7, FIRST))
    run = runs.publish(governed, governed.land(8, SECOND), **BY_SQL).until("resolve")
    add_row_policy(governed, "product_id = 1", ROW_POLICY)
    with pytest.raises(ContractViolation, match=ROW_POLICY):
        run.step("dedup")
