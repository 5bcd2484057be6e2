"""The requests to Dataproc and BigQuery for one run, as golden files and against the APIs' own schemas and rules."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.cloud.dataproc_v1 import CreateBatchRequest
from google.protobuf.json_format import MessageToDict

from dedup_clone.orchestration.runners.dataproc import batch_of, dataproc_labels
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.spark_settings import SparkSettings, SparkSize
from tests.contract.dataproc.airflow_simulator import REPOSITORY, SPARK
from tests.contract.dataproc.conftest import RUNNERS, Fake, Simulate
from tests.contract.dataproc.fake import rules
from tests.golden_files import assert_golden
from tests.rest_schemas import described

MADE_BY = ("CreateBatch", "SubmitJob", "InsertJob")
SCHEMAS = {"CreateBatch": "Batch", "SubmitJob": "SubmitJobRequest"}


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
    made = creating_requests(fake)
    for method, request in made.items():
        if method in SCHEMAS:  # Google's description knows every field
            body = request.get("batch") or {k: v for k, v in request.items() if k not in ("projectId", "region")}
            assert described("dataproc.v1").message_faults(SCHEMAS[method], body) == []
    assert_golden(f"dataproc/{runner}.json", json.dumps(made, indent=1, sort_keys=True) + "\n")


LARGEST = SparkSize(executors=2000, max_executors=2000, executor_cores=16, driver_cores=16, memory_gb_per_core=7)
SMALLEST = SparkSize(executors=2, max_executors=2, memory_gb_per_core=2)


@pytest.mark.parametrize("version", ["2.3", "3.0"])
@pytest.mark.parametrize("size", [SMALLEST, LARGEST], ids=["smallest", "largest"])
@pytest.mark.parametrize("runner", ["serverless", "cluster"])
def test_the_service_accepts_every_size_and_the_most_labels_of_every_runtime(
    runner: str, size: SparkSize, version: str, fakes, simulate: Simulate
) -> None:
    changes = {"runtime_version": version, "labels": {f"label_{n}": "x" * 63 for n in range(29)}}
    settings = RUNNERS[runner][1].model_copy(update=changes)
    fakes(runner)
    done = simulate(runner, size=size, settings=settings).run()
    assert done.state == "success", done.errors
    with pytest.raises(ValueError, match="at most 29 items"):
        SparkSettings(labels={f"label_{n}": "x" for n in range(30)})


def test_the_job_itself_sets_no_property_that_batches_refuse() -> None:
    """The page on Spark properties: an application that sets a property of YARN or of the shuffle service fails."""
    sources = [path.read_text() for path in (REPOSITORY / "spark_jobs").rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'"(spark\.[\w.]+)"', text)}
    assert "spark.sql.caseSensitive" in names
    rules.check_property_names(names)


def spec(**changes: Any) -> SparkJobSpec:
    usual = {"request_uri": "r", "main_uri": "m", "archive_uri": "a", "properties": {}, "labels": {}}
    return SparkJobSpec(**{**usual, "ttl_s": 600, **changes})


def test_labels_of_this_project_are_as_the_reference_asks() -> None:
    """Batch.labels: keys and values conform to RFC 1035. Those of the profile are not changed."""
    labels = {"dedup_clone_feed": "a_feed_", "dedup_clone_attempt": "00000007-abc123", "cost_center": "4_2"}
    found = dataproc_labels(labels)
    assert found == {"dedup-clone-feed": "a-feed", "dedup-clone-attempt": "n00000007-abc123", "cost_center": "4_2"}
    rules.check_labels(found)


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
    batch = batch_of(spec(), SPARK)
    CreateBatchRequest({"batch": batch})
    *folders, name = path.split(".")
    inside: Any = batch
    for folder in folders:
        inside = inside[folder]
    inside[f"{name}s_"] = inside.pop(name)
    with pytest.raises((ValueError, TypeError)):
        CreateBatchRequest({"batch": batch})
