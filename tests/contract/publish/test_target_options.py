"""What somebody has set on target stays there: declared options are carried, others stop a publish before its dedup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud import bigquery
from google.cloud.bigquery.table import PrimaryKey, TableConstraints

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.settings.feed import Feed
from dedup_clone.state.staging import Staging, StagingState
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from tests.shared.stand_in_client import STAND_IN_USER

KMS_KEY = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
FIRST, SECOND = [row(7, 1), row(7, 2)], [row(8, 1, 30)]
DECLARED = {
    "primary_key": True,
    "options": {"friendly_name": "Attributes", "labels": {"team": "stores"}, "require_partition_filter": True},
}
KEYS = ["date", "product_id", "store_id", "attribute_id"]


def declare(world: FeedOnStandIn, **changes: Any) -> None:
    """Change the section `table` of the feed file, validated."""
    values = world.feed.model_dump()
    values["table"] |= changes
    world.feed = Feed.model_validate(values)


def describe(world: FeedOnStandIn, text: str) -> None:
    columns = [c.model_dump() for c in world.feed.table.columns]
    for column in columns:
        column["description"] = text if column["name"] == "attr_value" else ""
    declare(world, columns=tuple(columns))


def change(world: FeedOnStandIn, apply: Callable[[bigquery.Table], None], *fields: str) -> None:
    """Change target as somebody does by hand."""
    table = found(world)
    apply(table)
    world.bigquery.update_table(table, fields)


def found(world: FeedOnStandIn) -> bigquery.Table:
    return world.bigquery.get_table(f"local-dev.warehouse.{world.feed.target}")


def set_label(world: FeedOnStandIn) -> None:
    change(world, lambda table: table.labels.update(team="stores"), "labels")


def set_friendly_name(world: FeedOnStandIn) -> None:
    change(world, lambda table: setattr(table, "friendly_name", "Attributes"), "friendly_name")


def require_filter(world: FeedOnStandIn) -> None:
    change(world, lambda table: setattr(table, "require_partition_filter", True), "require_partition_filter")


def set_primary_key(world: FeedOnStandIn) -> None:
    key = TableConstraints(PrimaryKey(KEYS), None)
    change(world, lambda table: setattr(table, "table_constraints", key), "table_constraints")


def add_column(world: FeedOnStandIn) -> None:
    def extended(table: bigquery.Table) -> None:
        table.schema = [*table.schema, bigquery.SchemaField("note", "STRING")]

    change(world, extended, "schema")


def set_description(world: FeedOnStandIn) -> None:
    def described(table: bigquery.Table) -> None:
        fields = [field.to_api_repr() for field in table.schema]
        fields[4]["description"] = "What a shop measured."
        table.schema = [bigquery.SchemaField.from_api_repr(field) for field in fields]

    change(world, described, "schema")


def add_row_policy(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY everything ON warehouse.{world.feed.target} GRANT TO ('{STAND_IN_USER}') "
        "FILTER USING (TRUE)"
    )


@pytest.mark.parametrize(
    ("set_by_hand", "found_text", "declared_in"),
    [
        (set_label, "label [team]: stores", "declare label in table.options.labels"),
        pytest.param(
            set_friendly_name, "friendly name: Attributes", "table.options.friendly_name", marks=pytest.mark.exhaustive
        ),
        pytest.param(
            require_filter,
            "require_partition_filter: true",
            "table.options.require_partition_filter",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            set_primary_key,
            "primary key: date, product_id, store_id, attribute_id",
            "table.primary_key",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            set_description,
            "description of column [attr_value]: What a shop measured.",
            "the column's description",
            marks=pytest.mark.exhaustive,
        ),
        (
            add_row_policy,
            f"row access policy [everything]: TRUE for {STAND_IN_USER}",
            "table.policies.row_access",
        ),
        (add_column, "column [note]: added by hand", "table of your own"),
    ],
    ids=["label", "friendly name", "partition filter", "primary key", "description", "row policy", "column"],
)
def test_what_the_swap_would_remove_stops_the_publish_and_says_what_to_declare(
    world: FeedOnStandIn, set_by_hand: Callable[[FeedOnStandIn], None], found_text: str, declared_in: str
) -> None:
    world.publish(world.land(7, FIRST))
    second = world.land(8, SECOND)
    spec = world.resolve(second)
    world.deduplicate(spec)
    world.load(spec)
    set_by_hand(world)
    for step in (lambda: world.check(spec), lambda: world.resolve(world.land(9, SECOND))):
        with pytest.raises(CheckFailed) as refused:
            step()
        assert f"target_options: [{found_text}]" in str(refused.value)
        assert declared_in in str(refused.value)
    assert world.live() == "1"


def test_declared_options_are_on_every_target(world: FeedOnStandIn) -> None:
    declare(world, **DECLARED)
    describe(world, "What a shop measured.")
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, SECOND))
    table = found(world)
    assert table.friendly_name == "Attributes"
    assert table.labels["team"] == "stores"
    assert table.labels["dedup_clone_generation"] == "2"
    assert table.require_partition_filter is True
    assert table.table_constraints.primary_key.columns == KEYS
    assert table.schema[4].description == "What a shop measured."
    assert world.roll_back(1).restores == 1
    assert found(world).labels["team"] == "stores"


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
    staging = f"warehouse.{world.feed.staging}"
    world.bigquery.query_and_wait(f"ALTER TABLE {staging} SET OPTIONS (expiration_timestamp = NULL)")
    assert world.publish(name, run_id="again").generation > 1
    assert found(world).expires is None


@pytest.mark.exhaustive
def test_options_that_were_set_by_hand_are_carried_once_they_are_declared(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    for set_by_hand in (set_label, set_friendly_name, require_filter, set_primary_key, set_description):
        set_by_hand(world)
    declare(world, **DECLARED)
    describe(world, "What a shop measured.")
    before = found(world)
    world.publish(world.land(8, SECOND))
    after = found(world)
    assert (after.friendly_name, after.labels["team"]) == (before.friendly_name, before.labels["team"])
    assert (after.schema, after.table_constraints) == (before.schema, before.table_constraints)


@pytest.mark.exhaustive
def test_an_option_that_is_no_longer_declared_goes_with_the_next_swap(world: FeedOnStandIn) -> None:
    declare(world, **DECLARED)
    world.publish(world.land(7, FIRST))
    declare(world, options={}, primary_key=False)
    world.publish(world.land(8, SECOND))
    table = found(world)
    assert (table.friendly_name, table.labels.get("team"), table.require_partition_filter) == (None, None, None)
    assert table.table_constraints.primary_key.columns == KEYS  # it is still on staging


@pytest.mark.exhaustive
def test_engine_merge_reads_a_target_that_requires_a_filter(world: FeedOnStandIn) -> None:
    """It restores staging from target after an attempt that failed."""
    declare(world, **DECLARED)
    world.publish(world.land(7, FIRST))
    world.services.staging.write(Staging(StagingState.LOADING, "a dead one", 2, ""))
    world.publish(world.land(8, SECOND), replay=True, engine=Engine.MERGE, reason="without Spark")
    sql = f"SELECT product_id, attr_value FROM warehouse.{world.feed.target} WHERE date >= '{TODAY}'"
    assert sorted(tuple(r.values()) for r in world.bigquery.query_and_wait(sql)) == [(1, 30), (2, 20)]


def test_all_tables_of_a_feed_have_its_kms_key(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    declare(world, options={"kms_key": KMS_KEY})
    spec = world.resolve(world.land(8, SECOND), replay=True, engine=Engine.BIGQUERY, reason="without Spark")
    world.deduplicate(spec)
    incoming = world.bigquery.get_table(f"local-dev.warehouse.{world.services.names.incoming_table}")
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    staging = world.bigquery.get_table(f"local-dev.warehouse.{world.feed.staging}")
    keys = [table.encryption_configuration for table in (incoming, staging, found(world))]
    assert [key and key.kms_key_name for key in keys] == [KMS_KEY] * 3
