"""Jobs that end otherwise than by their own error leave nothing behind."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from devstack.bigquery.faults import parse_fault
from devstack.bigquery.jobs import query_job
from devstack.bigquery.jobs.dml_queue import MAXIMUM_RUNNING
from devstack.bigquery.jobs.job_record import DONE, JobRecord
from devstack.bigquery.jobs.statement_runner import StatementRunner
from devstack.bigquery.storage.model import TableId
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


def test_a_defect_of_the_stand_in_ends_the_child_job_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    warehouse = Warehouse(tmp_path)
    monkeypatch.setattr(StatementRunner, "run", fail)
    script = warehouse.run("DECLARE x INT64 DEFAULT 1; SELECT x;")
    (child,) = [job for job in warehouse.stand_in.jobs.store.all() if job.parent_job_id == script.job_id]
    for job in (script, child):
        assert job.state == DONE
        assert job.error is not None
        assert job.error["reason"] == "standInFailed"
        assert "a defect" in job.error["message"]


def test_the_uploaded_file_of_a_job_that_is_cancelled_before_it_starts_is_deleted(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    stand_in = warehouse.stand_in
    file = stand_in.uploads / "file"
    file.write_bytes(b"")
    stand_in.faults.add(parse_fault({"match": {"job_type": "load"}, "effect": "queue"}))
    configuration = {"jobType": "LOAD", "load": {}}
    record = JobRecord("local-dev", "US", "job", configuration, stand_in.clock.now_us(), upload=file.name)
    stand_in.jobs.cancel(stand_in.jobs.insert(record))
    ended = warehouse.wait(record)
    assert ended.state == DONE
    assert ended.error is not None
    assert ended.error["reason"] == "stopped"
    assert not file.exists()


def test_a_defect_while_a_job_is_pending_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: JobRecord) -> None:
        raise RuntimeError("a defect")

    warehouse = Warehouse(tmp_path)
    monkeypatch.setattr(query_job, "dml_statement", fail)
    job = warehouse.run("SELECT 1 AS x")
    assert job.state == DONE
    assert job.error is not None
    assert job.error["reason"] == "standInFailed"


def test_a_statement_that_its_timeout_ends_in_the_queue_was_not_cancelled(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d; CREATE TABLE d.t (v INT64)")
    queue = warehouse.stand_in.queries._dml_queue
    with ExitStack() as running:
        for _ in range(MAXIMUM_RUNNING):
            running.enter_context(queue.admit(TableId("local-dev", "d", "t"), threading.Event()))
        job = warehouse.wait(warehouse.start("DELETE FROM d.t WHERE v = 1", jobTimeoutMs="100"))
    assert job.error is not None
    assert job.error["message"] == "Job execution was cancelled: Job timed out"
