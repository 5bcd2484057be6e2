"""The engines in SQL read a whole table: a query above the feed's limit is refused, with its estimate."""

from __future__ import annotations

import re

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.attempt_jobs import limited_query_configuration
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.new_feeds import new_feed


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_a_query_above_the_limit_is_refused_before_it_runs(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    world = FeedOnStandIn(new_feed("limited_"), *clients)
    world.publish(world.land(7, [row(7, n) for n in range(50)]))
    world.feed = world.feed.model_copy(update={"engine": engine, "max_bytes_billed": 100})
    spec = world.resolve(world.land(8, [row(8, n) for n in range(50)]))
    with pytest.raises(CheckFailed, match=r"would read \[[0-9]+\] bytes .* USD .*\[max_bytes_billed\] allows: \[100\]"):
        world.deduplicate(spec)
    ids = [job.job_id for job in world.bigquery.list_jobs() if spec.attempt in job.job_id]
    assert [job_id for job_id in ids if re.search("evidence|load", job_id)] == []


def test_bigquery_enforces_the_limit_where_nothing_was_estimated(clients: tuple[Storage, BigQuery]) -> None:
    world = FeedOnStandIn(new_feed("limited_"), *clients)
    configuration = limited_query_configuration(world.services, "load", "SELECT 1; SELECT 2;", {})
    assert configuration["query"]["maximumBytesBilled"] == str(world.feed.max_bytes_billed)
