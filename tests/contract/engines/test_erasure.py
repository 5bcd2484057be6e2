"""Erasure in feeds of the engines that do not know of it: it is refused, and so is what would bring keys back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import UpdateIdMode
from testkit.feed_on_stand_in import YESTERDAY, row
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import StreamedFeed, feed_with

pytestmark = pytest.mark.spark
ENGINES = [Engine.BIGQUERY, *(pytest.param(e, marks=pytest.mark.exhaustive) for e in (Engine.MERGE, Engine.CDC))]

PERSON = 1_234_567_890_123
KEYS = f"product_id\n{PERSON}\n"


@pytest.fixture(scope="module")
def dedup(clients_of_moved_clock: tuple[Storage, BigQuery]) -> Iterator[SparkDedupProcess]:
    with SparkDedupProcess(clients_of_moved_clock[0]) as process:
        yield process


def products(world: StreamedFeed, table: str) -> set[int]:
    found = world.bigquery.query_and_wait(f"SELECT DISTINCT product_id FROM warehouse.{table}")
    return {r["product_id"] for r in found}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_is_erased_with_engine_spark_and_the_engine_before_cannot_bring_it_back(
    streaming_clients: tuple[Storage, BigQuery], dedup: SparkDedupProcess, engine: Engine
) -> None:
    world = feed_with(streaming_clients, PRODUCTS)
    world.dedup = dedup
    if engine is not Engine.CDC:
        world.feed = world.feed.model_copy(update={"engine": engine, "update_id_mode": UpdateIdMode.LAST_SEEN})
    own = world.feed
    with_spark = own.model_copy(update={"engine": Engine.SPARK})
    world.publish(world.land(1, [row(1, 1), row(1, PERSON), row(1, PERSON, day=YESTERDAY)]))
    name = world.land(2, [row(2, 1, 21), row(2, PERSON, 31), row(2, PERSON, day=YESTERDAY)])
    world.publish(name)
    with pytest.raises(ConfigurationError, match=rf"engine \[{engine}\], which does not support erasures"):
        world.erase(KEYS)
    assert world.services.current.read().last_generation == 2

    world.feed = with_spark
    assert world.erase(KEYS).erased_rows == 2
    tables = (own.target, own.staging)
    assert [products(world, table) for table in tables] == [{1}, {1}]
    with pytest.raises(ConfigurationError, match=rf"engine \[{engine}\] is not supported after an erasure"):
        world.resolve(name, replay=True, engine=engine, reason="test")
    world.feed = own
    with pytest.raises(ConfigurationError, match=rf"engine \[{engine}\] is not supported after an erasure"):
        world.resolve(name, replay=True, reason="test")

    world.feed = with_spark
    world.publish(name, replay=True, plan="rewrite", run_id="again", reason="test")
    world.publish(world.land(3, [row(3, 1, 22), row(3, PERSON, 32)]))
    assert [products(world, table) for table in tables] == [{1}, {1}]
