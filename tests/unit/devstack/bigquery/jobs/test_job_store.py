"""Simultaneous requests of jobs.query with one requestId start one job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.jobs.job_store import JobStore
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

REQUESTS = 8


def record(number: int) -> JobRecord:
    configuration = {"jobType": "QUERY", "query": {"query": "SELECT 1", "useLegacySql": False}}
    return JobRecord("local-dev", "US", f"job_{number}", configuration, 0, request_id="asked-once")


def test_simultaneous_requests_of_one_request_id_store_one_job(tmp_path: Path) -> None:
    store, start = JobStore(tmp_path), Barrier(REQUESTS)

    def ask(number: int) -> JobRecord:
        start.wait()
        return store.add(record(number))

    with ThreadPoolExecutor(REQUESTS) as pool:
        stored = {job.key for job in pool.map(ask, range(REQUESTS))}
    assert stored == {job.key for job in store.all()}
    assert len(stored) == 1


def test_a_repeated_request_starts_no_second_job(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    jobs = warehouse.stand_in.jobs
    first = jobs.insert(record(1))
    assert jobs.insert(record(2)).key == first.key
    assert [job.key for job in jobs.store.all()] == [first.key]
    assert warehouse.wait(first).error is None
