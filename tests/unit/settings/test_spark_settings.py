"""The feed section `spark`: refused properties and refused sizes."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dedup_clone.settings.spark_settings import SparkSize


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("spark.master", "the service chooses where Spark runs"),
        ("spark.yarn.queue", "serverless batches have no YARN"),
        ("spark.shuffle.service.enabled", "no external shuffle service"),
        ("spark.submit.deployMode", "the service submits the job"),
        ("spark.jars", "an unpinned one is code that nobody reviewed"),
        ("spark.jars.packages", "an unpinned one is code that nobody reviewed"),
        ("spark.executor.memory", r"set \[memory_gb_per_core\] instead"),
        ("spark.executor.instances", r"set \[executors\] instead"),
        ("spark.dynamicAllocation.maxExecutors", r"set \[max_executors\] instead"),
        ("sprak.sql.shuffle.partitions", "none of Spark's"),
    ],
)
def test_properties_that_a_feed_may_not_set_are_refused(name: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        SparkSize(properties={name: "1"})


def test_a_feed_may_set_other_properties() -> None:
    assert SparkSize(properties={"spark.sql.shuffle.partitions": "64"}).properties


@pytest.mark.parametrize(
    "size", [{"executor_cores": 5}, {"memory_gb_per_core": 8}, {"max_executors": 1}, {"executors": 101}]
)
def test_sizes_that_no_service_supports_are_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SparkSize(**size)
