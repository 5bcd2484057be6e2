"""Runner `bigquery_procedure` on the stand-in: the dedup step with its trigger, and the shipped code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from bigquery_standin.client import Control
from dedup_clone.contract.errors import SparkRunFailed
from dedup_clone.settings.spark_settings import Runner, SparkSettings, SparkSize
from devstack.spark_archive import build_spark_code
from testkit import runs
from testkit.dag_tasks import let_steps_pull, let_tasks_use, setup_of
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, expected, row
from tests.contract.dataproc.airflow_simulator import SimulatedRun
from tests.contract.dataproc.fake.clients import connect_bigquery
from tests.contract.new_feeds import new_feed

pytestmark = pytest.mark.spark


@pytest.fixture
def setup(clients: tuple[Storage, BigQuery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The setup of a feed whose profile has this runner, with the shipped code in the state bucket."""
    storage, bigquery = clients
    address = bigquery._connection.API_BASE_URL
    connect_bigquery(address, monkeypatch)
    for permission in ("bigquery.connections.delegate", "bigquery.connections.use"):
        Control(address).grant(permission)
    code, bucket = build_spark_code(REPOSITORY), storage.bucket("state")
    files = {"main": ("dedup_snapshot.py", code.main), "archive": ("dedup_spark.zip", code.archive)}
    for name, content in files.values():
        bucket.blob(f"code/{code.digest}/{name}").upload_from_string(content)
    note = {key: f"gs://state/code/{code.digest}/{name}" for key, (name, _) in files.items()}
    (tmp_path / "spark_code.json").write_text(json.dumps(note))
    local = setup_of(FeedOnStandIn(new_feed("procedure_"), *clients))
    changes = {
        "runner": Runner.BIGQUERY_PROCEDURE,
        "spark": SparkSettings(procedure_connection="local-dev.us.spark"),
        "job_poll_interval_s": 0.2,
    }
    return replace(
        local,
        feed=local.feed.model_copy(update={"spark": SparkSize(executors=2, memory_gb_per_core=2)}),
        deployment=local.deployment.model_copy(update=changes),
        folders=replace(local.folders, spark_code=tmp_path / "spark_code.json"),
    )


def test_a_snapshot_is_published_by_a_stored_procedure_for_spark(
    clients: tuple[Storage, BigQuery], setup: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = FeedOnStandIn(setup.feed, *clients)
    run = runs.publish(feed, feed.land(7, [row(7, 1), row(7, 1), row(7, 2)])).until("resolve")
    let_tasks_use(feed, monkeypatch)
    task = SimulatedRun(setup)
    let_steps_pull(run.plan, monkeypatch)
    task.run()
    assert task.state == "success", task.error
    assert run.finish_after("dedup").cluster_overlap == 0.0
    assert feed.rows() == expected(row(7, 1), row(7, 2))
    (procedure,) = [r for r in feed.bigquery.list_routines("warehouse") if r.routine_id.endswith(feed.feed.feed)]
    (argument,) = feed.bigquery.get_routine(procedure.reference).arguments
    assert argument.name == "request"

    failing = SimulatedRun(setup)
    failing.tries = 1
    failed = runs.publish(feed, feed.land(8, [row(8, 1)])).until("resolve")
    let_steps_pull(replace(failed.plan, folder_uri="gs://state/absent/"), monkeypatch)
    with pytest.raises(
        SparkRunFailed, match=r"dedup of \[gs://state/absent/attempt.json\] failed, nothing was published"
    ):
        failing.run_try()
