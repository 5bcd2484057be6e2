"""Rebuild: a published table gets another form, under the same name, and the next snapshot is published on top."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ConfigurationError, DedupCloneError
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.settings.feed import Feed
from testkit import operations, runs
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish.existing_tables import (
    as_text,
    column,
    describe,
    land_declared,
    select,
    with_columns,
    with_table,
)

FIRST = [row(7, 1), row(7, 2, 30), row(7, 3, day=YESTERDAY)]
RENAMED = {"attr_value": "value"}


def without_attribute(feed: Feed) -> Feed:
    """The feed without the column `attribute_id`, which is a key and clusters the table."""
    keys = tuple(key for key in feed.table.keys if key != "attribute_id")
    return with_table(with_columns(feed, attribute_id=None), keys=keys, cluster_by=("product_id",))


def by_sale(feed: Feed) -> Feed:
    """The feed with a table that is partitioned by a new column."""
    added = with_columns(feed, sold_on=column("sold_on", "DATE"))
    return with_table(added, partition_column="sold_on", keys=("sold_on", "product_id"))


def tables(world: FeedOnStandIn) -> set[str]:
    return {table.table_id for table in world.bigquery.list_tables("warehouse") if world.feed.feed in table.table_id}


def test_a_renamed_column_of_another_type_keeps_its_values_and_the_next_snapshot_is_published_on_top(
    world: FeedOnStandIn,
) -> None:
    name = world.land(7, FIRST)
    world.publish(name)
    before = tables(world)
    world.feed = as_text(world.feed)
    with pytest.raises(ConfigurationError):
        world.resolve(name, replay=True, reason="x")
    run = runs.rebuild(world, renamed=RENAMED).until("preview")
    for part in ("[attr_value] becomes [value]", "new column [note]", "0.00 USD on demand", "No rollback"):
        assert part in run.text
    record = run.finish()
    assert select(world, "product_id, value, note, update_id") == [
        (1, "20", None, 7),
        (2, "30", None, 7),
        (3, "20", None, 7),
    ]
    assert (record.generation, record.parent, record.kind, record.replay) == (2, 1, "rebuild", False)
    assert (record.reason, record.snapshot_id) == ("another form", 7)
    assert world.state.manifest(2)["deliveries"] == world.state.manifest(1)["deliveries"]
    assert {entry["newest_snapshot"] for entry in world.state.manifest()["dates"]} == {7}
    assert (tables(world), world.state.subfolders("data")[-1:]) == (before, [run.attempt])
    with pytest.raises(ConfigurationError, match=r"Choose one of: 2 \(snapshot 7\)"):
        runs.rollback(world, 1).until("preview")

    newest = {key: value for key, value in row(8, 2).items() if key != "attr_value"} | {"value": "x", "note": "y"}
    after = world.publish(land_declared(world, 8, [newest]))
    assert (after.generation, after.parent, after.changed_rows, after.new_rows) == (3, 2, 1, 0)
    assert select(world, "product_id, value, note") == [(1, "20", None), (2, "x", "y"), (3, "20", None)]
    world.roll_back(2)
    assert select(world, "product_id, value") == [(1, "20"), (2, "30"), (3, "20")]


def test_in_mode_last_changed_rows_keep_their_update_ids_through_a_rebuild_and_after_it(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1), row(8, 2, 31)]))
    world.feed = as_text(world.feed)
    runs.rebuild(world, renamed=RENAMED).finish()
    assert select(world, "product_id, value, update_id") == [(1, "20", 7), (2, "31", 8), (3, "20", 7)]
    common = {"date": TODAY, "store_id": 2072, "attribute_id": 1, "note": None, "update_id": 9}
    newest = [{**common, "product_id": product, "value": value} for product, value in ((1, "20"), (2, "x"))]
    after = world.publish(land_declared(world, 9, newest))
    assert (after.changed_rows, after.new_rows) == (1, 0)
    assert select(world, "product_id, value, update_id") == [(1, "20", 7), (2, "x", 9), (3, "20", 7)]
    assert world.state.manifest()["update_id_mode"] == "last_changed"


def test_changes_that_wait_at_a_rebuild_do_not_hold_up_later_ones(world: FeedOnStandIn) -> None:
    """Their files have the former form."""
    world.feed = world.feed.model_copy(update={"changes": True})
    name = f"{world.feed.feed}_changes"
    world.publish(world.land(7, FIRST))
    world.fail_jobs(f"{world.feed.feed}-.*-changes-", times=1000)
    world.publish(world.land(8, [row(8, 1, 21), row(8, 2, 30)]))
    world.feed = as_text(world.feed)
    runs.rebuild(world, renamed=RENAMED).finish()
    world.clear_faults()
    clock = world.now
    world.now = lambda: clock() + timedelta(hours=1)
    operations.load_waiting_changes(world)
    assert select(world, "generation, new_row.attr_value", name) == [(2, 21)]
    common = {"date": TODAY, "store_id": 2072, "attribute_id": 1, "note": None, "update_id": 9}
    newest = [{**common, "product_id": product, "value": value} for product, value in ((1, "22"), (2, "30"))]
    world.publish(land_declared(world, 9, newest))
    assert select(world, "generation, old_row.value AS a, new_row.value AS b", name) == [(4, "21", "22")]


def test_rows_that_are_not_unique_by_the_new_keys_are_refused_unless_one_of_each_may_stay(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [*FIRST, {**row(7, 1, 99), "attribute_id": 2}]))
    staging = world.bigquery.get_table(f"warehouse.{world.feed.staging}").schema
    world.feed = without_attribute(world.feed)
    with pytest.raises(BootstrapRefused):
        runs.rebuild(world).until("dedup")
    assert world.bigquery.get_table(f"warehouse.{world.feed.staging}").schema == staging
    assert (world.state.lease, world.live()) == (None, "1")
    runs.rebuild(world, duplicates="keep_latest").finish()
    assert select(world, "product_id") == [(1,), (2,), (3,)]


def clusterings(world: FeedOnStandIn) -> list[list[str]]:
    names = (world.feed.target, world.feed.staging)
    return [world.bigquery.get_table(f"warehouse.{name}").clustering_fields for name in names]


def test_other_keys_and_another_clustering_need_no_copy_of_the_rows(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    former = clusterings(world)
    world.feed = with_table(world.feed, cluster_by=("store_id",))
    with pytest.raises(CheckFailed, match="layout"):
        world.resolve(world.land(8, FIRST))
    world.feed = with_table(world.feed, keys=("date", "product_id"))
    text = runs.rebuild(world, duplicates="keep_latest").until("preview").text
    for part in (
        "clustered by [store_id]",
        "Copy: none",
        f"all columns: 2 dates ({YESTERDAY}..{TODAY})",
        "**Rows may be dropped**",
    ):
        assert part in text
    run = runs.rebuild(world).until("check")
    world.fail_jobs(f"{run.attempt}-swap", reason="invalid")
    with pytest.raises(GoogleAPICallError):  # it has changed target's clustering already
        run.until("swap")
    operations.recover_lease(world)
    assert clusterings(world) == former
    runs.rebuild(world, run_id="again").finish()
    assert (clusterings(world), world.rows()) == ([["store_id"]] * 2, expected(*FIRST))
    assert tuple(world.state.manifest()["table"]["keys"]) == ("date", "product_id")


def test_no_rollback_goes_beyond_a_rebuild_of_which_only_the_clustering_differs(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.feed = with_table(world.feed, cluster_by=("store_id",))
    runs.rebuild(world).finish()
    with pytest.raises(ConfigurationError, match="Choose one of: 2 "):
        world.roll_back(1)


def test_a_value_without_a_place_in_its_new_type_ends_the_run_before_anything_changes(world: FeedOnStandIn) -> None:
    world.feed = with_columns(world.feed, attr_value=column("attr_value", "STRING"))
    world.publish(land_declared(world, 7, [{**row(7, 1), "attr_value": "x"}]))
    world.feed = with_columns(world.feed, attr_value=column("attr_value", "INT64"))
    with pytest.raises(DedupCloneError, match=r"do not fit the declared columns.*Nothing was changed"):
        runs.rebuild(world).until("export")


REFUSED: list[tuple[Callable[[Feed], Feed], dict[str, Any]]] = [
    (lambda feed: feed, {}),  # no rebuild is needed
    (lambda feed: as_text(feed).model_copy(update={"engine": Engine.CDC}), {}),
    (lambda feed: with_table(as_text(feed), retention_days=400), {}),
    (as_text, {"renamed": {"atr_value": "value"}}),  # renames no column
    (by_sale, {}),
    (lambda feed: with_columns(feed, product_id=column("product_id", "DATE")), {}),  # BigQuery has no such cast
]


def test_what_a_rebuild_cannot_make_is_refused_before_the_lease(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    former = world.feed
    for change, form in REFUSED:
        world.feed = change(former)
        with pytest.raises(ConfigurationError):
            runs.rebuild(world, **form).until("preview")

    world.feed = as_text(former)
    approved = runs.rebuild(world).until("preview")
    world.feed = former
    world.publish(world.land(8, [row(8, 1)]))
    world.feed = as_text(former)
    with pytest.raises(ConfigurationError, match=r"\[2\].*expected \[1\]"):  # live meanwhile
        approved.until("resolve")
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY mine ON warehouse.{former.staging} GRANT TO ('allUsers') FILTER USING (TRUE)"
    )
    with pytest.raises(ConfigurationError, match="mine"):
        runs.rebuild(world).until("preview")
    assert world.state.lease is None


def test_what_the_table_has_besides_rows_must_be_declared(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    for name in (world.feed.staging, world.feed.target):
        describe(world, name, "product_id", description="the product")
    world.feed = as_text(world.feed)
    with pytest.raises(ConfigurationError, match=r"description of column \[product_id\]"):
        runs.rebuild(world).until("preview")
