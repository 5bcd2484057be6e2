"""What a feed may say of its Spark run, and what no service would take."""

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
        ("spark.executor.memory", r"set \[memory_gb_per_core\] instead"),
        ("spark.executor.instances", r"set \[executors\] instead"),
        ("spark.dynamicAllocation.maxExecutors", r"set \[max_executors\] instead"),
        ("sprak.sql.shuffle.partitions", "none of Spark's"),
    ],
)
def test_properties_that_are_not_the_feeds_to_set(name: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        SparkSize(properties={name: "1"})


def test_other_properties_are_the_feeds() -> None:
    assert SparkSize(properties={"spark.sql.shuffle.partitions": "64"}).properties


@pytest.mark.parametrize(
    "size", [{"executor_cores": 5}, {"memory_gb_per_core": 8}, {"max_executors": 1}, {"executors": 101}]
)
def test_sizes_that_no_service_has(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SparkSize(**size)
