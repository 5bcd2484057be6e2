"""The requests to Dataproc and BigQuery for one run, as golden files and against the APIs' own schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.cloud.dataproc_v1 import Batch
from google.protobuf.json_format import MessageToDict

from dedup_clone.orchestration.runners.serverless import batch_of
from dedup_clone.orchestration.runners.sizing import RunSize, spark_properties
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.spark_settings import MAX_LABELS, SparkSettings, SparkSize
from tests.contract.dataproc.airflow_simulator import SPARK
from tests.contract.dataproc.conftest import RUNNERS, Fake, Simulate
from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Refused
from tests.golden_files import assert_golden
from tests.rest_schemas import described

MADE_BY = ("CreateBatch", "SubmitJob", "CreateCluster", "InsertJob")
SCHEMAS = {"CreateBatch": "Batch", "SubmitJob": "SubmitJobRequest", "CreateCluster": "Cluster"}


def creating_requests(fake: Fake) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for method, request in fake.requests:
        if method in MADE_BY:
            assert method not in made
            made[method] = request if isinstance(request, dict) else MessageToDict(type(request).pb(request))
    return made


@pytest.mark.parametrize("runner", RUNNERS)
def test_requests_of_a_run(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner)
    assert simulate(runner, size=SparkSize(properties={"spark.sql.shuffle.partitions": "64"})).run().state == "success"
    assert_golden(f"dataproc/{runner}.json", json.dumps(creating_requests(fake), indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("runner", ["serverless", "cluster", "own_cluster"])
def test_the_description_of_the_rest_api_knows_every_field(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner)
    assert simulate(runner).run().state == "success"
    for method, request in creating_requests(fake).items():
        message = {"CreateBatch": "batch", "CreateCluster": "cluster"}.get(method)
        body = request[message] if message else {k: v for k, v in request.items() if k not in ("projectId", "region")}
        assert described("dataproc").message_faults(SCHEMAS[method], body) == []


LARGEST = SparkSize(executors=2000, max_executors=2000, executor_cores=16, driver_cores=16, memory_gb_per_core=7)
SMALLEST = SparkSize(executors=2, max_executors=2, memory_gb_per_core=2)


@pytest.mark.parametrize("version", rules.PINNED_RUNTIMES)
@pytest.mark.parametrize("size", [SMALLEST, LARGEST], ids=["smallest", "largest"])
@pytest.mark.parametrize("runner", ["serverless", "cluster", "own_cluster"])
def test_the_service_accepts_every_size_and_the_most_labels_of_every_runtime(
    runner: str, size: SparkSize, version: str, fakes, simulate: Simulate
) -> None:
    changes = {"runtime_version": version, "labels": {f"label_{n}": "x" * 63 for n in range(MAX_LABELS)}}
    settings = RUNNERS[runner][1].model_copy(update=changes)
    fakes(runner)
    done = simulate(runner, size=size, settings=settings).run()
    assert done.state == "success", done.errors


def test_a_profile_with_more_labels_than_dataproc_accepts_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 29 items"):
        SparkSettings(labels={f"label_{n}": "x" for n in range(MAX_LABELS + 1)})


PROPERTIES = spark_properties(RunSize(2, 4, 4, 1.0, 20, 1.0, ""), SparkSize())


@pytest.mark.parametrize(
    ("property_", "value"),
    [
        ("spark.driver.cores", "2"),
        ("spark.executor.cores", "32"),
        ("spark.executor.memory", "30000m"),
        ("spark.driver.memoryOverhead", "60000m"),
        ("spark.dynamicAllocation.initialExecutors", "101"),
        ("spark.dynamicAllocation.maxExecutors", "2001"),
        ("spark.dynamicAllocation.minExecutors", "1"),
        ("spark.dynamicAllocation.minExecutors", "3"),
        ("spark.shuffle.service.enabled", "true"),
        ("yarn.queue", "q"),
    ],
)
def test_the_fake_refuses_properties_outside_the_documented_values(property_: str, value: str) -> None:
    rules.check_batch(Batch(batch_with(PROPERTIES)))
    with pytest.raises(Refused):
        rules.check_batch(Batch(batch_with({**PROPERTIES, property_: value})))


@pytest.mark.parametrize(
    ("execution", "version"),
    [
        ({"ttl": {"seconds": 599}}, "2.3"),
        ({"ttl": {"seconds": 14 * 24 * 3600 + 1}}, "2.3"),
        ({"ttl": {"seconds": 600}, "idle_ttl": {"seconds": 600}}, "2.3"),
        ({"ttl": {"seconds": 600}}, "1.0"),
        ({"ttl": {"seconds": 600}, "service_account": "a@b"}, "3.0"),
    ],
)
def test_the_fake_refuses_batches_that_the_runtime_does_not_run(execution: dict[str, Any], version: str) -> None:
    batch = batch_with(PROPERTIES) | {"environment_config": {"execution_config": execution}}
    batch["runtime_config"]["version"] = version
    with pytest.raises(Refused):
        rules.check_batch(Batch(batch))


def batch_with(properties: dict[str, str]) -> dict[str, Any]:
    return {
        "runtime_config": {"version": "2.3", "properties": properties},
        "environment_config": {"execution_config": {"ttl": {"seconds": 600}}},
    }


def spec(**changes: Any) -> SparkJobSpec:
    usual = {"request_uri": "r", "main_uri": "m", "archive_uri": "a", "properties": {}, "labels": {}}
    return SparkJobSpec(**{**usual, "executors": 2, "executor_cores": 4, "timeout_s": 60, **changes})


def test_runtime_3_runs_as_sparks_account_and_stages_nothing() -> None:
    """Of runtime 3.0, Google's own message says: END_USER_CREDENTIALS is used if the type is unspecified."""
    execution = batch_of(spec(), SPARK.model_copy(update={"runtime_version": "3.0"}))["environment_config"]
    assert execution["execution_config"]["authentication_config"] == {
        "user_workload_authentication_type": "SERVICE_ACCOUNT"
    }
    assert execution["execution_config"]["service_account"] == SPARK.service_account
    assert "staging_bucket" not in execution["execution_config"]


@pytest.mark.parametrize("path", ["pyspark_batch.args", "environment_config.execution_config.ttl", "labels"])
def test_a_misspelt_field_is_never_sent(path: str) -> None:
    """Google's messages refuse unknown fields on every level, so that none can be ignored."""
    from google.cloud.dataproc_v1 import CreateBatchRequest

    batch = batch_of(spec(), SPARK)
    CreateBatchRequest({"batch": batch})
    *folders, name = path.split(".")
    inside: Any = batch
    for folder in folders:
        inside = inside[folder]
    inside[f"{name}s_"] = inside.pop(name)
    with pytest.raises((ValueError, TypeError)):
        CreateBatchRequest({"batch": batch})
