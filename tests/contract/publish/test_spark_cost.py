"""The cost of Spark in the ledger, and the projection of a snapshot's cost to the feed's full size."""

from __future__ import annotations

import pytest

from dedup_clone.contract.records import to_json
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.records.cost_projection import cost_at_full_size
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import LedgerRecord
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
