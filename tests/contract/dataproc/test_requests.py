"""The requests to Dataproc and BigQuery for one run, as golden files and against the APIs' own schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from dedup_clone.orchestration.runners.serverless import batch_of
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.spark_settings import SparkSize
from tests.contract.dataproc.airflow_simulator import SPARK
from tests.contract.dataproc.conftest import RUNNERS, Fake, Simulate
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
