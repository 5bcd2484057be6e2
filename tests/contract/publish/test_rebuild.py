"""Rebuild: a published table gets another form, under the same name, and the next snapshot is published on top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowFailException
from google.api_core.exceptions import BadRequest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ConfigurationError
from dedup_clone.contract.request import Duplicates
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.page.publish_kinds import PublishKind, publish_kinds
from dedup_clone.publish.planning.partition_export import export_folder
from dedup_clone.publish.rebuild.rebuild_plan import plan_rebuild
from dedup_clone.publish.rebuild.resolve_rebuild import (
    prepare_swap,
    resolve_rebuild,
)
from dedup_clone.publish.records.changes_table import FIRST_PAUSE, load_changes
from dedup_clone.publish.recovery import recover
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from dedup_clone.warehouse.jobs import Jobs
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.stand_in_faults import add_fault, clear_faults
from tests.contract.publish.rebuild_steps import (
    FIRST,
    as_text,
    by_sale,
    land,
    rebuild,
    request,
    select,
    until,
    with_columns,
    with_table,
    without_attribute,
)

SPARK = pytest.param("Spark", marks=[pytest.mark.spark, pytest.mark.exhaustive])


@pytest.fixture
def dedup_job(world: FeedOnStandIn, request: pytest.FixtureRequest) -> None:
    """Makes the world's publishes use the real Spark job if the test's parameter is "Spark"."""
    if request.param == "Spark":
        world.dedup = request.getfixturevalue("real_dedup")


@pytest.mark.usefixtures("dedup_job")
@pytest.mark.parametrize("dedup_job", ["fake", SPARK], indirect=True)
def test_a_renamed_column_of_another_type_keeps_its_values_and_the_next_snapshot_is_published_on_top(
    world: FeedOnStandIn,
) -> None:
    name = world.land(7, FIRST)
    world.publish(name)
    world.feed = as_text(world.feed)
    with pytest.raises(ConfigurationError, match="this publish cannot make"):
        world.resolve(name, replay=True, reason="x")
    incoming = world.services.names.incoming_table
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{incoming} AS SELECT 1 AS left_by_a_dead_run")
    plan = plan_rebuild(world.services, request(renamed={"attr_value": "value"}))
    for part in (
        "[attr_value] becomes [value]",
        "new column [note]",
        "Copy: a query reads all rows, 0.0 GiB, 0.00 USD on demand",
        f"all columns of 2 dates ({YESTERDAY}, {TODAY}) with staging, by two queries each",
        "If rows have the same key, the run ends",
        "No rollback",
    ):
        assert part in plan.text
    assert (plan.copy_bytes, plan.compared_bytes) == (3 * 6 * 8, 2 * 3 * 6 * 8)
    record = rebuild(world, renamed={"attr_value": "value"})
    assert select(world, "product_id, value, note, update_id") == [
        (1, "20", None, 7),
        (2, "30", None, 7),
        (3, "20", None, 7),
    ]
    assert (record.generation, record.parent, record.rebuilt, record.is_replay) == (2, 1, True, False)
    assert (record.reason, record.snapshot_id, record.is_publish) == ("rebuild: another form", 7, False)
    services = world.services
    assert services.manifests.read(2).deliveries == services.manifests.read(1).deliveries
    assert {entry.newest_snapshot for entry in services.manifests.read(2).dates} == {7}
    index = IndexFile(services.store, services.feed.feed).read().index
    assert index
    assert publish_kinds(index)[2] is PublishKind.REBUILD
    assert services.warehouse.table(services.names.incoming_table) is None
    assert list(services.store.objects(export_folder(services, record.attempt))) == []
    with pytest.raises(ConfigurationError, match=r"a rebuild. Choose one of: 2 \(snapshot 7\)"):
        world.preview(1)

    newest = {
        "date": TODAY,
        "product_id": 2,
        "store_id": 2072,
        "attribute_id": 1,
        "value": "x",
        "note": "y",
        "update_id": 8,
    }
    after = world.publish(land(world, 8, [newest]))
    assert (after.generation, after.parent, after.changed_rows, after.new_rows) == (3, 2, 1, 0)
    assert select(world, "product_id, value, note, update_id") == [
        (1, "20", None, 7),
        (2, "x", "y", 8),
        (3, "20", None, 7),
    ]
    world.roll_back(2)
    assert select(world, "product_id, value") == [(1, "20"), (2, "30"), (3, "20")]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("dedup_job")
@pytest.mark.parametrize("dedup_job", ["fake", SPARK], indirect=True)
def test_in_mode_last_changed_rows_keep_their_update_ids_through_a_rebuild_and_after_it(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1), row(8, 2, 31)]))
    world.feed = as_text(world.feed)
    rebuild(world, renamed={"attr_value": "value"})
    assert select(world, "product_id, value, update_id") == [(1, "20", 7), (2, "31", 8), (3, "20", 7)]
    common = {"date": TODAY, "store_id": 2072, "attribute_id": 1, "note": None, "update_id": 9}
    newest = [{**common, "product_id": product, "value": value} for product, value in ((1, "20"), (2, "x"))]
    after = world.publish(land(world, 9, newest))
    assert (after.changed_rows, after.new_rows) == (1, 0)
    assert select(world, "product_id, value, update_id") == [(1, "20", 7), (2, "x", 9), (3, "20", 7)]
    assert world.services.manifests.read(4).update_id_mode is UpdateIdMode.LAST_CHANGED


@pytest.mark.exhaustive
def test_changes_that_wait_at_a_rebuild_do_not_hold_up_later_ones(world: FeedOnStandIn) -> None:
    """Their files have the former form."""
    world.feed = world.feed.model_copy(update={"changes": True})
    name = f"warehouse.{world.feed.feed}_changes"
    world.publish(world.land(7, FIRST))
    fault = {"match": {"job_id": f"{world.feed.feed}-.*-changes-"}, "effect": "error", "reason": "backendError"}
    add_fault(world.bigquery._connection.API_BASE_URL, {**fault, "times": 1000})
    world.publish(world.land(8, [row(8, 1, 21)]))
    world.feed = as_text(world.feed)
    rebuild(world, renamed={"attr_value": "value"})
    clear_faults(world.bigquery._connection.API_BASE_URL)
    later = world.services.now() + FIRST_PAUSE
    load_changes(replace(world.services, now=lambda: later))  # as the watchdog does
    found = world.bigquery.query_and_wait(f"SELECT generation, new_row.attr_value AS value FROM {name}")
    assert [tuple(r.values()) for r in found] == [(2, 21)]
    newest = {**row(9, 1), "value": "22", "note": None}
    world.publish(land(world, 9, [{k: v for k, v in newest.items() if k != "attr_value"}]))
    found = world.bigquery.query_and_wait(f"SELECT generation, old_row.value AS a, new_row.value AS b FROM {name}")
    assert [tuple(r.values()) for r in found] == [(4, "21", "22")]


@pytest.mark.exhaustive
def test_rows_that_are_not_unique_by_the_new_keys_are_refused_unless_one_of_each_may_stay(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [*FIRST, {**row(7, 1, 99), "attribute_id": 2}]))
    former, world.feed = world.feed, without_attribute(world.feed)
    with pytest.raises(BootstrapRefused, match=r"\[1\] surplus rows of keys that occur more than once"):
        until(world, "dedup")
    staging = world.services.warehouse.table(former.staging)
    assert staging
    assert staging.columns == former.table.to_contract().columns
    assert (world.services.current.read().intent, world.live()) == (None, "1")
    rebuild(world, duplicates="keep_latest")
    assert [r[0] for r in select(world, "product_id")] == [1, 2, 3]


def test_other_keys_and_another_clustering_need_no_copy_of_the_rows(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    former, world.feed = world.feed, with_table(world.feed, cluster_by=("store_id",))
    with pytest.raises(CheckFailed, match=r"layout.*FEED_rebuild"):
        world.resolve(world.land(8, FIRST))
    world.feed = with_table(world.feed, keys=("date", "product_id"))
    plan = plan_rebuild(world.services, request(duplicates=Duplicates.KEEP_LATEST, compared_dates=1))
    for part in ("clustered by [store_id]", "Copy: none", "of 1 dates", "**Rows may be dropped**"):
        assert part in plan.text
    assert (plan.copy_bytes, plan.compared_bytes) == (0, 2 * 6 * 8)
    assert "Comparison: none" in plan_rebuild(world.services, request(compared_dates=0)).text
    spec = until(world, "load")
    prepare_swap(world.services, spec)  # the run dies after it has changed target's clustering
    recover(world.services, dag_id="other", run_id="other")
    assert list(world.services.store.objects(export_folder(world.services, spec.attempt))) == []
    for name in (former.target, former.staging):
        table = world.services.warehouse.table(name)
        assert table
        assert table.cluster_by == former.table.cluster_by
    rebuild(world)
    target = world.services.warehouse.table(world.feed.target)
    assert target
    assert (target.cluster_by, world.rows()) == (("store_id",), expected(*FIRST))
    assert world.services.manifests.read(3).table.keys == ("date", "product_id")


def test_a_value_without_a_place_in_its_new_type_ends_the_run_before_anything_changes(world: FeedOnStandIn) -> None:
    number = ColumnSettings(name="attr_value", type="INT64")
    world.feed = with_columns(world.feed, attr_value=ColumnSettings(name="attr_value", type="STRING"))
    world.publish(land(world, 7, [{**row(7, 1), "attr_value": "x"}]))
    world.feed = with_columns(world.feed, attr_value=number)
    with pytest.raises(AirflowFailException, match=r"do not fit the declared columns.*Nothing was changed"):
        until(world, "export")


OTHER_STEPS = ["resolve", "export", "dedup", "prepare", "check", "swap"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["load", *(pytest.param(step, marks=pytest.mark.exhaustive) for step in OTHER_STEPS)])
def test_a_run_that_dies_leaves_the_table_as_it_was_or_is_committed(world: FeedOnStandIn, step: str) -> None:
    world.publish(world.land(7, FIRST))
    former, world.feed = world.feed, as_text(world.feed)
    until(world, step, renamed={"attr_value": "value"})
    recover(world.services, dag_id="other", run_id="other")
    assert world.services.current.read().intent is None
    if step == "swap":
        assert [r[0] for r in select(world, "value")] == ["20", "20", "30"]
        assert world.services.current.read().generation == 2
        return
    assert world.rows() == expected(*FIRST)
    assert world.services.warehouse.table(world.services.names.incoming_table) is None
    records = world.services.ledger.read_last(9)
    assert [r.outcome for r in records][1:] == ([] if step == "resolve" else [Outcome.FAILED])
    world.feed = former  # the operator gives up
    world.publish(world.land(8, [row(8, 1, 21)]))
    assert world.rows() == expected(row(8, 1, 21), *FIRST[1:])


REFUSED: list[tuple[Callable[[Feed], Feed], dict[str, Any], str]] = [
    (lambda feed: feed, {}, "no rebuild is needed"),
    (lambda feed: as_text(feed).model_copy(update={"engine": Engine.CDC}), {}, r"engine \[cdc\] streams"),
    (lambda feed: with_table(as_text(feed), retention_days=400), {}, "retention_days is shorter"),
    (as_text, {"renamed": {"atr_value": "value"}}, r"\[atr_value=value\] renames no column"),
    (by_sale, {}, r"partition_column is \[sold_on\].*no table by one of another partitioning: publish it as a feed of"),
]


def test_what_a_rebuild_cannot_make_is_refused_before_the_lease(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, FIRST))
    former = world.feed
    for change, form, words in REFUSED:
        world.feed = change(former)
        with pytest.raises(ConfigurationError, match=words):
            plan_rebuild(world.services, request(**form))

    world.feed = as_text(former)
    shown = plan_rebuild(world.services, request()).live_generation
    world.feed = former
    world.publish(world.land(8, [row(8, 1)]))
    world.feed = as_text(former)
    with pytest.raises(ConfigurationError, match=r"Generation \[2\] .* is live by now, expected \[1\]"):
        resolve_rebuild(world.services, request(), shown)

    with monkeypatch.context() as patched:
        refusal = BadRequest("Invalid cast from INT64 to DATE")  # type: ignore[no-untyped-call]
        patched.setattr(Jobs, "dry_run_bytes", Mock(side_effect=refusal))
        with pytest.raises(ConfigurationError, match=r"BigQuery cannot copy the rows.*Invalid cast"):
            plan_rebuild(world.services, request())

    for table in (former.staging, former.target):
        world.services.warehouse.alterations.describe(table, {"product_id": "the product"}, ())
    with pytest.raises(ConfigurationError, match=r"would lack description of column \[product_id\]"):
        plan_rebuild(world.services, request())
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY mine ON warehouse.{former.staging} GRANT TO ('allUsers') FILTER USING (TRUE)"
    )
    with pytest.raises(ConfigurationError, match=r"row access policies \['mine'\]"):
        plan_rebuild(world.services, request())
    assert world.services.current.read().intent is None
