"""What Spark runs used is stored when they have ended, as their service reports it, and priced."""

from __future__ import annotations

import pytest

from dedup_clone.contract.records import from_json
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.orchestration.runners.sizing import size_run
from dedup_clone.settings.spark_settings import SparkSize
from tests.contract.dataproc.airflow_simulator import SPARK, STORED, WORK
from tests.contract.dataproc.conftest import RUNNERS, Simulate
from tests.contract.dataproc.fake.service_state import FAILED
from tests.contract.dataproc.fake.services import DCU_HOURS


@pytest.mark.parametrize("runner", RUNNERS)
def test_each_runner_stores_what_its_run_used(runner: str, fakes, simulate: Simulate) -> None:
    fakes(runner)
    settings = RUNNERS[runner][1].model_copy(update={"usd_per_dcu_hour": 0.07, "usd_per_vcpu_hour": 0.05})
    done = simulate(runner, settings=settings).run()
    ((name, text),) = STORED.items()
    usage = from_json(SparkUsage, text, where=name)
    assert name == "worked_example/attempts/00000007-abc123/spark_usage.json"
    size = size_run(WORK, SparkSize(), RUNNERS[runner][0])
    assert (usage.run, usage.vcpus) == (done.result, size.cores + 4)
    if runner == "serverless":
        assert usage.dcu_hours == DCU_HOURS
        assert usage.usd(job_seconds=3600) == pytest.approx(DCU_HOURS * 0.07)
    else:
        assert usage.dcu_hours is None
        hours = 1 if runner == "procedure" else 1 / 60  # the service tells how long a job on a cluster took
        assert usage.usd(job_seconds=3600) == pytest.approx(usage.vcpus * 0.05 * hours)


def test_without_a_price_of_machines_their_cost_is_unknown(fakes, simulate: Simulate) -> None:
    fakes("cluster")
    simulate("cluster", settings=SPARK).run()
    (text,) = STORED.values()
    assert from_json(SparkUsage, text, where="test").usd(job_seconds=3600) is None


@pytest.mark.parametrize("runner", ["serverless", "cluster"])
def test_what_failed_runs_used_is_added(runner: str, fakes, simulate: Simulate) -> None:
    fakes(runner, endings=[(FAILED, "no such file"), (FAILED, "no such file")])
    settings = RUNNERS[runner][1].model_copy(update={"usd_per_vcpu_hour": 0.05})
    assert simulate(runner, settings=settings).run().state == "success"
    ((name, text),) = STORED.items()
    usage = from_json(SparkUsage, text, where=name)
    runs = 3
    assert usage.run.endswith(f"-{runs}")
    if runner == "serverless":
        assert usage.all_dcu_hours == pytest.approx(runs * DCU_HOURS)
        assert usage.usd(job_seconds=None) == pytest.approx(runs * DCU_HOURS * SPARK.usd_per_dcu_hour)
    else:
        assert usage.usd(job_seconds=None) == pytest.approx(runs * usage.vcpus * 60 / 3600 * 0.05)
    assert usage.after(usage) == usage  # a task that finds the same run again adds nothing


def test_what_runs_used_is_stored_although_all_failed(fakes, simulate: Simulate) -> None:
    fakes("serverless", endings=[(FAILED, "no such file")] * 9)
    done = simulate("serverless").run()
    ((name, text),) = STORED.items()
    assert done.state == "failed"
    assert from_json(SparkUsage, text, where=name).all_dcu_hours == pytest.approx(4 * DCU_HOURS)
