"""Jobs that end otherwise than by their own error leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.bigquery.faults import parse_fault
from devstack.bigquery.jobs.job_record import DONE, JobRecord
from devstack.bigquery.jobs.statement_runner import StatementRunner
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
