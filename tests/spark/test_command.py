"""The command as the DAGs submit it: a process of its own, on emulated gs:// storage."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.execution.progress import INTERVAL_S
from dedup_spark.storage import cloud
from testkit.local_servers import start_fake_gcs
from testkit.spark_job_feed import SparkJobFeed
from testkit.spark_submit_conf import conf_arguments
from testkit.table_contracts import PRODUCTS
from tests.spark.object_names import NAMES

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkJobFeed]:
    with start_fake_gcs(tmp_path / "gcs", "landing", "state") as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        cloud.forget_clients()
        yield SparkJobFeed(None, "landing", "gs://state/feed", PRODUCTS)
        cloud.forget_clients()


def row(day: int, product: int, value: int, snapshot_id: int) -> dict[str, Any]:
    names = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")
    return dict(zip(names, (date(2026, 3, day), product, 2072, 1, value, snapshot_id), strict=True))


def submit(attempt: Attempt, events: Path | None = None, *arguments: str) -> subprocess.CompletedProcess[str]:
    request_uri = storage.join(attempt.folder_uri, "attempt.json")
    storage.write_text(request_uri, to_json(attempt))
    host = os.environ["STORAGE_EMULATOR_HOST"]
    event_log = {"enabled": "true", "dir": events.as_uri(), "compress": "false"} if events else {}
    conf = {**local_spark_conf("1g"), **emulator_spark_conf(host), "spark.master": "local[2]"}
    conf |= {f"spark.eventLog.{key}": value for key, value in event_log.items()}
    folder = Path(sys.executable).parent
    program = [str(folder / "spark-submit"), *conf_arguments(conf)]
    command = [*program, str(REPOSITORY / "spark_jobs/dedup_snapshot.py"), "--request", request_uri, *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def read_candidate(attempt: Attempt) -> Candidate:
    uri = storage.join(attempt.folder_uri, "candidate.json")
    return from_json(Candidate, storage.read_text(uri), where=uri)


def land_objects_of_unusual_names(area: SparkJobFeed) -> list[dict[str, Any]]:
    """On a third day, beside what the first snapshot has there: all names that a load job can name."""
    rows = [row(3, number, 1, 1) for number in range(len(NAMES))]
    for name, unusual in zip(NAMES, rows, strict=True):
        area.put(1, f"date=2026-03-03/{name}.parquet", pa.Table.from_pylist([unusual], arrow_schema(PRODUCTS.columns)))
    return rows


def test_publishes_objects_of_any_name_on_cloud_storage_and_copies_dates_that_no_delivery_has(
    area: SparkJobFeed, tmp_path: Path
) -> None:
    area.land(1, [row(1, 7, 20, 1), row(1, 8, 5, 1), row(2, 7, 1, 1)])
    unusual = land_objects_of_unusual_names(area)
    area.plan = Plan.WINDOW
    first = area.attempt([area.arrive(1)])
    done = submit(first)
    assert done.returncode == 0, done.stdout + done.stderr
    candidate = read_candidate(first)
    assert candidate.refused == ()
    area.commit(candidate)
    area.plan = Plan.AUTO
    second = area.attempt([area.land(2, [row(1, 7, 21, 2)])])
    events = tmp_path / "events"
    events.mkdir()
    done = submit(second, events)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "feed=feed snapshot_id=2 generation=" in done.stdout
    assert_never_silent(done.stdout)
    candidate = read_candidate(second)
    area.commit(candidate)
    assert sorted(area.rows(), key=str) == sorted(
        [row(1, 7, 21, 2), row(1, 8, 5, 1), row(2, 7, 1, 1), *unusual], key=str
    )
    assert candidate.manifest
    assert [entry.plan for entry in candidate.manifest.dates] == ["adopt", "copied forward", "copied forward"]
    uris = storage.read_text(str(candidate.load_uris_uri)).splitlines()
    assert [uri for uri in uris if not uri.startswith(second.data_uri)] == []
    assert len(uris) == len(area.files().files)
    assert logged_jobs(events) == [
        "validate and compare: 1",
        "copy files of the parent: 2",
    ]


def assert_never_silent(log: str) -> None:
    """Assert that none of the lines of each INTERVAL_S is missing, from the job's first line to its last.

    On a busy machine a line may come late, so the bound is not INTERVAL_S itself.
    """
    times = [
        datetime.fromisoformat(at.replace(",", ".")) for at in re.findall(r"^20\d\d-\S+ \S+(?= )", log, re.MULTILINE)
    ]
    assert max(later - before for before, later in pairwise(times)) < timedelta(seconds=2 * INTERVAL_S)


def logged_jobs(events: Path) -> list[str]:
    """The descriptions of the Spark jobs in the event log of the one run whose log is in this folder."""
    logs = [path for path in events.rglob("*") if path.is_file()]
    lines = [json.loads(line) for path in logs for line in path.read_text().splitlines() if line.startswith("{")]
    started = [line for line in lines if line["Event"] == "SparkListenerJobStart"]
    return list(dict.fromkeys(line["Properties"]["spark.job.description"] for line in started))


def test_failure_ends_with_one_clear_line_and_publishes_nothing(area: SparkJobFeed) -> None:
    attempt = area.attempt([area.land(1, [row(1, 7, 20, 1)])])
    storage.write_text(attempt.arrival_uri(attempt.deliveries[0]), "{}")
    done = submit(attempt)
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert "nothing was published" in last
    assert attempt.arrival_uri(attempt.deliveries[0]) in last
    assert not storage.exists(storage.join(attempt.folder_uri, "candidate.json"))


def test_a_job_that_nobody_stops_ends_itself(area: SparkJobFeed) -> None:
    """Dataproc has no time limit for a job on a cluster."""
    attempt = area.attempt([area.land(1, [row(1, 7, 20, 1)])])
    done = submit(attempt, None, "--end-after-s", "0.5")
    assert done.returncode == 1
    assert "not done after 0.5 seconds, and no task has stopped the job: it ends" in done.stdout + done.stderr
    assert not storage.exists(storage.join(attempt.folder_uri, "candidate.json"))
