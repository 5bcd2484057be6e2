"""A request for some dates of a delivery: those dates take its rows, and the delivery is still to come."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import Plan, RequestedDelivery
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, row

pytestmark = pytest.mark.spark


@pytest.fixture(params=[Plan.AUTO, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=request.param)


def publish_only(area: SparkJobFeed, arrival: Arrival, *dates: date) -> None:
    area.commit(area.run(replace(area.request([arrival]), dates=dates)))


def found(area: SparkJobFeed) -> list[tuple[date, int, int, int]]:
    return sorted((r["date"], r["product_id"], r["attr_value"], r["update_id"]) for r in area.rows())


def test_only_those_dates_change_and_the_whole_publish_is_still_right(area: SparkJobFeed) -> None:
    area.publish(area.land(7, [row(7, 1, 20, FIRST), row(7, 2, 20, FIRST), row(7, 1, 20, SECOND)]))
    newer = area.land(8, [row(8, 1, 21, FIRST), row(8, 1, 22, SECOND), row(8, 3, 23, SECOND)])
    publish_only(area, newer, SECOND)
    assert found(area) == [(FIRST, 1, 20, 7), (FIRST, 2, 20, 7), (SECOND, 1, 22, 8), (SECOND, 3, 23, 8)]
    assert area.manifest
    assert [d.snapshot_id for d in area.manifest.deliveries] == [7]
    assert area.manifest.applied == (newer.delivery,)
    assert area.entry(FIRST).plan == "carried"

    publish_only(area, area.land(6, [row(6, 1, 99, SECOND), row(6, 4, 24, SECOND), row(6, 5, 25, FIRST)]), SECOND)
    assert found(area)[2:] == [(SECOND, 1, 22, 8), (SECOND, 3, 23, 8), (SECOND, 4, 24, 6)]

    area.publish(newer)
    assert found(area) == [
        (FIRST, 1, 21, 8),
        (FIRST, 2, 20, 7),
        (SECOND, 1, 22, 8),
        (SECOND, 3, 23, 8),
        (SECOND, 4, 24, 6),
    ]
    assert [d.snapshot_id for d in area.manifest.deliveries] == [7, 8]


def test_dates_of_a_delivery_that_is_in_change_nothing(area: SparkJobFeed) -> None:
    arrival = area.land(7, [row(7, 1, 20, FIRST), row(7, 1, 20, SECOND)])
    area.publish(arrival)
    before = found(area)
    publish_again = area.request([arrival])
    uri = storage.join(area.state, f"arrivals/{arrival.delivery.name}.json")
    named = (RequestedDelivery(arrival.delivery, uri),)
    area.commit(area.run(replace(publish_again, deliveries=named, dates=(FIRST,))))
    assert found(area) == before
