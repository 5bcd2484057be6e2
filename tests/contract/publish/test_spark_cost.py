"""The cost of Spark in the ledger, and the projection of a snapshot's cost to the feed's full size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.records import to_json
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.records.cost_projection import cost_at_full_size
from dedup_clone.publish.records.index_refresh import refresh_index
from dedup_clone.publish.recovery import recover
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.index import IndexFile, IndexProjection
from dedup_clone.state.ledger import LedgerRecord, Outcome
from testkit.feed_on_stand_in import FeedOnStandIn, row

USED = SparkUsage("dc-1", dcu_hours=5.0, vcpus=12, usd_per_dcu_hour=0.06, usd_per_vcpu_hour=None)


def publish(world: FeedOnStandIn, snapshot_id: int, usage: SparkUsage | None) -> LedgerRecord:
    name = world.land(snapshot_id, [row(snapshot_id, n) for n in range(10)])
    spec, swap = world.publish_to_check(name)
    if usage is not None:
        world.services.store.put(world.services.layout.spark_usage(spec.attempt), to_json(usage))
    world.swap(spec, swap)
    return world.commit(spec)


def test_what_spark_used_is_priced_in_the_ledger_and_without_a_full_size_not_projected(world: FeedOnStandIn) -> None:
    record = publish(world, 7, USED)
    assert record.cost is not None
    assert (record.cost.dcu_hours, record.cost.spark_usd) == (5.0, pytest.approx(0.3))
    assert record.cost.total_usd == pytest.approx(record.cost.query_usd + 0.3)
    world.write_reporting_tables()
    sql = f"SELECT spark_usd, dcu_hours FROM warehouse.dedup_clone_ledger WHERE feed = '{world.feed.feed}'"
    assert [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)] == [(pytest.approx(0.3), 5.0)]
    assert cost_at_full_size(world.services, world.services.manifests.read(1), ()) is None


def test_an_attempt_that_a_check_stops_has_its_cost_too(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(update={"checks": CheckSettings(max_changed_share=0.5)})
    publish(world, 7, USED)
    spec = world.resolve(world.land(8, [row(8, n, 99) for n in range(10)]))
    world.services.store.put(world.services.layout.spark_usage(spec.attempt), to_json(USED))
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed):
        world.check(spec)
    recover(world.services, dag_id="other", run_id="other")
    (stopped,) = world.services.ledger.read_last(1)
    assert stopped.outcome is Outcome.FAILED
    assert stopped.cost is not None
    assert (stopped.cost.spark_usd, stopped.cost.merge_usd) == (pytest.approx(0.3), None)


def project(world: FeedOnStandIn, *records: LedgerRecord) -> IndexProjection:
    """The projection of the live generation to 15 TB."""
    world.feed = world.feed.model_copy(update={"full_size_gb": 15_000.0})
    live = world.services.manifests.read(world.services.current.read().generation or 0)
    projection = cost_at_full_size(world.services, live, records)
    assert projection is not None
    return projection


@pytest.mark.exhaustive
def test_without_a_report_the_cost_of_spark_is_unknown(world: FeedOnStandIn) -> None:
    record = publish(world, 7, None)
    assert record.cost is not None
    assert (record.cost.spark_usd, record.cost.total_usd) == (None, record.cost.query_usd)


def test_the_cost_is_projected_to_the_full_size(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(update={"full_size_gb": 15_000.0})
    publish(world, 7, USED)
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index is not None
    staging, projection = world.services.warehouse.table(world.feed.staging), index.projection
    assert staging is not None
    assert projection is not None
    assert projection.times == pytest.approx(15e12 / staging.size)
    assert projection.spark_usd == pytest.approx(0.3 * projection.times)
    assert projection.qualify_usd == pytest.approx(2 * 15e12 / 2**40 * 6.25, rel=1e-3)
    assert projection.merge_usd > projection.qualify_usd
    assert projection.usd < 0.001


def test_spark_is_projected_from_the_last_complete_snapshot_in_order(world: FeedOnStandIn) -> None:
    complete = publish(world, 7, USED)
    assert complete.cost is not None
    dear = replace(complete, cost=replace(complete.cost, spark_usd=99.0))
    late = replace(dear, deliveries=(Delivery(6, 1),))
    backlog = replace(dear, deliveries=(Delivery(6, 1), *dear.deliveries))
    others = {
        "one date replayed": replace(dear, deliveries=(), lag_s=None),
        "replayed": replace(dear, lag_s=None),
        "late": late,
        "backlog": backlog,
        "some dates": replace(dear, plans=(DateOutcome.ADOPT, DateOutcome.COPIED_FORWARD)),
        "bootstrap": replace(dear, deliveries=(), parent=None, lag_s=None),
        "erasure": replace(dear, deliveries=(), erased_rows=1, lag_s=None),
        "rebuild": replace(dear, deliveries=(), rebuilt=True, lag_s=None),
        "another engine": replace(dear, engine=Engine.CDC),
    }
    expected = project(world, complete).spark_usd
    assert expected is not None
    for name, record in others.items():
        assert project(world, complete, record).spark_usd == expected, name
        assert project(world, record).spark_usd is None, name


def test_the_start_of_spark_is_not_multiplied(world: FeedOnStandIn) -> None:
    record = replace(publish(world, 7, USED), phases={"spark_start": 60.0, "dedup": 20.0})
    projection = project(world, record)
    assert projection.spark_usd == pytest.approx(0.3 * 0.75 + 0.3 * 0.25 * projection.times)


def test_after_a_switch_to_an_engine_in_sql_no_cost_of_spark_is_projected(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(update={"full_size_gb": 15_000.0})
    publish(world, 7, USED)
    world.feed = world.feed.model_copy(update={"engine": Engine.MERGE})
    refresh_index(world.services)
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index is not None
    assert index.projection is not None
    assert index.projection.spark_usd is None
    assert index.projection.usd == pytest.approx(483.2, rel=0.1)


def test_what_engine_cdc_streams_and_applies_is_projected(world: FeedOnStandIn) -> None:
    record = publish(world, 7, USED)
    cdc = world.feed.cdc.model_copy(update={"max_changed_share": 0.5})
    world.feed = world.feed.model_copy(update={"engine": Engine.CDC, "cdc": cdc})
    usual = replace(record, parent=1, new_rows=0, changed_rows=1)  # of ten rows
    streamed_usd, applied_usd = 15e12 / 2**30 * 0.025, 15e12 / 2**40 * 6.25
    assert project(world, usual).usd == pytest.approx(0.1 * streamed_usd + applied_usd, abs=0.01)
    # No publish has shown yet how much changes.
    assert project(world, record).usd == pytest.approx(0.5 * streamed_usd + applied_usd, abs=0.01)
