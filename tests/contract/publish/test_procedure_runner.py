"""Runner `bigquery_procedure` on the stand-in: the dedup task with its operator and trigger, and the shipped code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import SparkRunFailed
from dedup_clone.orchestration.runners import engine_dispatch, remote_operator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.spark_settings import Runner, SparkSettings, SparkSize
from devstack.spark_archive import build_spark_code
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, expected, row
from tests.contract.dataproc.airflow_simulator import SimulatedRun
from tests.contract.dataproc.fake.clients import connect_bigquery
from tests.contract.new_feeds import new_feed
from tests.thoroughness import NIGHT


class FeedOnProcedures(FeedOnStandIn):
    """A feed whose dedup task runs as Airflow would run it, on the stand-in's procedures for Spark."""

    def __init__(self, clients: tuple[Storage, BigQuery], setup: FeedSetup, patch: pytest.MonkeyPatch) -> None:
        super().__init__(setup.feed, *clients)
        self.setup = setup
        self.patch = patch

    def deduplicate(self, spec: PublishSpec) -> None:
        run = self.task(spec).run()
        assert run.state == "success", run.error

    def task(self, spec: PublishSpec) -> SimulatedRun:
        for module in (engine_dispatch, remote_operator):
            self.patch.setattr(module, "open_feed_services", lambda setup: self.services)
            self.patch.setattr(module, "pull_spec", lambda context: spec)
        return _Task(self.setup, spec.request_uri)


class _Task(SimulatedRun):
    def __init__(self, setup: FeedSetup, request_uri: str) -> None:
        super().__init__(setup)
        self.request_uri = request_uri

    def operator(self) -> Any:
        task = super().operator()
        task.request_uri = self.request_uri
        return task


@pytest.fixture
def feed(clients: tuple[Storage, BigQuery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeedOnProcedures:
    storage, bigquery = clients
    address = bigquery._connection.API_BASE_URL
    connect_bigquery(address, monkeypatch)
    for permission in ("bigquery.connections.delegate", "bigquery.connections.use"):
        grant = {"member": "user:stand-in@local.invalid", "permission": permission}
        requests.post(f"{address}/_standin/grants", json=grant, timeout=10).raise_for_status()
    code, bucket = build_spark_code(REPOSITORY), storage.bucket("state")
    files = {"main": ("dedup_snapshot.py", code.main), "archive": ("dedup_spark.zip", code.archive)}
    for name, content in files.values():
        bucket.blob(f"code/{code.digest}/{name}").upload_from_string(content)
    note = {key: f"gs://state/code/{code.digest}/{name}" for key, (name, _) in files.items()}
    (tmp_path / "spark_code.json").write_text(json.dumps(note))
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    spark = SparkSettings(procedure_connection="local-dev.us.spark")
    changed = deployment.model_copy(
        update={"runner": Runner.BIGQUERY_PROCEDURE, "spark": spark, "job_poll_interval_s": 0.2}
    )
    small = SparkSize(executors=2, memory_gb_per_core=2)
    setup = FeedSetup(
        new_feed("procedure_").model_copy(update={"spark": small}),
        changed,
        replace(find_folders(REPOSITORY / "dags"), spark_code=tmp_path / "spark_code.json"),
    )
    return FeedOnProcedures(clients, setup, monkeypatch)


def test_snapshots_are_published_by_a_stored_procedure_for_spark(feed: FeedOnProcedures) -> None:
    record = feed.publish(feed.land(7, [row(7, 1), row(7, 1), row(7, 2)]))
    assert record.cluster_overlap == 0.0
    assert feed.rows() == expected(row(7, 1), row(7, 2))
    if NIGHT:  # each run of a procedure starts a Spark of its own
        feed.publish(feed.land(8, [row(8, 1, 21), row(8, 3)]))
        assert feed.rows() == expected(row(7, 2), row(8, 1, 21), row(8, 3))
    (procedure,) = [r for r in feed.bigquery.list_routines("warehouse") if r.routine_id.endswith(feed.feed.feed)]
    (argument,) = feed.bigquery.get_routine(procedure.reference).arguments
    assert argument.name == "request"


@pytest.mark.exhaustive
def test_a_failed_procedure_shows_the_last_error_of_spark(feed: FeedOnProcedures) -> None:
    spec = feed.resolve(feed.land(7, [row(7, 1)]))
    run = feed.task(spec)
    run.request_uri, run.tries = "gs://state/absent.json", 1
    with pytest.raises(SparkRunFailed, match=r"dedup of \[gs://state/absent.json\] failed, nothing was published"):
        run.run_try()
