"""The requests to Dataproc and BigQuery for a run, by golden files and the APIs' schemas; and what refusals lead to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.runners.sizing import Workload
from dedup_clone.publish.attempt_jobs import job_labels
from dedup_clone.settings.spark_settings import SparkSettings, SparkSize
from tests.contract.dataproc.airflow_simulator import REPOSITORY, SPARK, WORK
from tests.contract.dataproc.conftest import RUNNERS, Fake, Simulate
from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Fault
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


LARGEST = SparkSize(target_minutes=3, max_executors=2000, memory_gb_per_core=7)
SMALLEST = SparkSize(max_executors=2, memory_gb_per_core=2)
HUGE = replace(WORK, newest_rows=10**13, delivered_bytes=10**14)


@pytest.mark.parametrize("version", ["2.3", "3.0"])
@pytest.mark.parametrize(("size", "work"), [(SMALLEST, WORK), (LARGEST, HUGE)], ids=["smallest", "largest"])
@pytest.mark.parametrize("runner", ["serverless", "cluster"])
def test_the_service_accepts_every_size_and_the_most_labels_of_every_runtime(
    runner: str, size: SparkSize, work: Workload, version: str, fakes, simulate: Simulate, monkeypatch: Any
) -> None:
    changes = {"runtime_version": version, "labels": {f"label_{n}": "x" * 63 for n in range(30)}}
    settings = RUNNERS[runner][1].model_copy(update=changes)
    fake = fakes(runner)
    monkeypatch.setattr(dedup, "read_workload", lambda services, attempt: work)
    done = simulate(runner, size=size, settings=settings).run()
    assert done.state == "success", done.errors
    assert f'maxExecutors": "{size.max_executors}"' in json.dumps(creating_requests(fake))
    with pytest.raises(ValueError, match="at most 30 items"):
        SparkSettings(labels={f"label_{n}": "x" for n in range(31)})


def test_the_job_itself_sets_no_property_that_batches_refuse() -> None:
    """The page on Spark properties: an application that sets a property of YARN or of the shuffle service fails."""
    sources = [path.read_text() for path in (REPOSITORY / "spark_jobs").rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'"(spark\.[\w.]+)"', text)}
    assert "spark.sql.caseSensitive" in names
    rules.check_property_names(names)


def test_labels_of_this_project_are_as_the_reference_asks() -> None:
    """Batch.labels: keys and values conform to RFC 1035."""
    services: Any = SimpleNamespace(feed=SimpleNamespace(feed="a_feed_"))
    found = job_labels(services, "dedup")
    assert found == {"dedup-clone-feed": "a-feed", "dedup-clone-step": "dedup"}
    rules.check_labels(found)


SUBMITS = {"serverless": "CreateBatch", "cluster": "SubmitJob", "procedure": "InsertJob"}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("code", "tries"), [("PERMISSION_DENIED", 1), ("RESOURCE_EXHAUSTED", 10)])
def test_only_a_refusal_that_may_pass_is_tried_again(
    runner: str, code: str, tries: int, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner)
    fake.faults.always(Fault(SUBMITS[runner], 0, code, message="Quota exceeded for CPUS" if tries > 1 else "denied"))
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", tries)
    assert ("Quota exceeded for CPUS" if tries > 1 else "denied") in done.error
    assert fake.state.runs == {}


@pytest.mark.parametrize(("name", "state", "tries"), [("nightly", "RUNNING", 1), ("shared", "STOPPED", 10)])
def test_a_cluster_that_does_not_exist_fails_at_once_and_one_that_is_stopped_may_start(
    name: str, state: str, tries: int, fakes, simulate: Simulate
) -> None:
    fake = fakes("cluster")
    fake.state.clusters["shared"].state = state
    settings = SPARK.model_copy(update={"cluster": name})
    done = simulate("cluster", settings=settings).run()
    assert (done.state, done.tries) == ("failed", tries)
    assert name in done.error


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_failed_run_is_told_by_its_name_and_in_its_own_words(runner: str, fakes, simulate: Simulate) -> None:
    fakes(runner, endings=[("failed", "Subnetwork 'spark' does not support Private Google Access")])
    done = simulate(runner).run()
    assert done.tries == 2
    assert "Subnetwork 'spark' does not support Private Google Access" in str(done.errors[0])
    assert "Spark run [dc-worked-example-00000007-abc123-1] failed" in str(done.errors[0])


def test_a_property_that_the_service_refuses_fails_at_once_with_its_words(fakes, simulate: Simulate) -> None:
    fakes("serverless")
    size = SparkSize.model_construct(**{**SparkSize().model_dump(), "properties": {"spark.yarn.queue": "q"}})
    done = simulate("serverless", size=size).run()
    assert done.tries == 1
    assert "Attempted to set unsupported properties: [ spark:spark.yarn.queue ]" in done.error


def test_without_deployed_spark_code_nothing_is_submitted(fakes, simulate: Simulate, tmp_path: Path) -> None:
    fake, task = fakes("serverless"), simulate("serverless")
    (tmp_path / "spark_code.json").unlink()
    assert "make deploy" in task.run().error
    assert (task.tries, fake.state.runs) == (1, {})
    (tmp_path / "spark_code.json").write_text('{"main": "gs://code/main.py"}')
    assert simulate("serverless").run().state == "failed"
