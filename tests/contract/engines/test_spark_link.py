"""The dedup task's link to Spark's UI on one machine: to the job's page in the history server, also after a failure."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.job_run import JobRun
from dedup_clone.contract.records import to_json, to_plain
from dedup_clone.orchestration.runners import dedup_operator, engine_dispatch, local
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import REPOSITORY, row
from testkit.table_contracts import PRODUCTS

HISTORY = "http://127.0.0.1:18080"


@pytest.mark.parametrize("fails", [False, True])
def test_the_link_leads_to_the_run_that_started_last(
    clients: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    world = FeedAgainstOracle(clients, feed_with_table(PRODUCTS))
    spec = world.resolve(world.land(1, [row(1, 1)]))
    folder = world.services.layout.job_runs(spec.attempt)
    during: list[Any] = []

    def submit(self: Any, context: Any) -> None:
        during.append(self.urls["spark_ui"])
        for number, application in enumerate(["local-2", "local-1"]):  # application ids do not tell the order
            run = JobRun(f"run{number}", application, datetime(2026, 1, 1 + number, tzinfo=UTC))
            world.services.store.put(f"{folder}{run.run}.json", to_json(run))
        if fails:
            raise RuntimeError("spark-submit exited with 1")
        world.dedup.run(spec.request_uri)

    monkeypatch.setenv(local.HISTORY_VARIABLE, HISTORY)
    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    for module in (engine_dispatch, local):
        monkeypatch.setattr(module, "open_feed_services", lambda setup: world.services)
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
    task: Any = dedup_operator(setup, task_id="dedup_snapshot", request_uri="uri")
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(
        xcom_pull=lambda **_: to_plain(spec), xcom_push=lambda *, key, value: pushed.update({key: value})
    )
    context: Any = {"ti": ti, "task": task, "dag": SimpleNamespace(has_task=lambda name: name == "resolve_publish")}
    try:
        task.execute(context)
    except RuntimeError:
        assert fails
    (link,) = task.operator_extra_links
    assert during == [f"{HISTORY}/?showIncomplete=true"]
    assert pushed[link.xcom_key] == link.get_link(task, ti_key=None) == f"{HISTORY}/history/local-1/"
