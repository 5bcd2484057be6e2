"""Jobs that ran when the process was killed: they succeeded if they had committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devstack.bigquery.jobs.job_record import DONE, RUNNING, JobRecord
from devstack.bigquery.jobs.job_recovery import recover_jobs
from devstack.bigquery.jobs.job_store import JobStore
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import CommitInfo
from devstack.bigquery.storage.table_change import Change
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse
from tests.unit.devstack.bigquery.storage.tables import SETTINGS, open_catalog, table_id


def running(catalog: Catalog, store: JobStore, name: str, parent: str | None = None) -> JobRecord:
    configuration: dict[str, Any] = {"query": {"query": "…"}}
    now_us = catalog.clock.now_us()
    record = JobRecord("local-dev", "US", name, configuration, now_us, RUNNING, now_us, parent_job_id=parent)
    store.add(record)
    return record


def commit(catalog: Catalog, mark: CommitInfo) -> None:
    catalog.commit(table_id("t"), lambda now, commit_us: Change("load", SETTINGS, {}), mark)


def test_committed_job_is_done_with_the_statistics_of_its_version(tmp_path: Path) -> None:
    catalog, store = open_catalog(tmp_path), JobStore(tmp_path / "jobs")
    job = running(catalog, store, "committed")
    commit(catalog, CommitInfo(job.key, {"load": {"outputRows": "3"}}))
    catalog.drop(table_id("t"))
    assert recover_jobs(JobStore(tmp_path / "jobs"), open_catalog(tmp_path)) == 1
    found = JobStore(tmp_path / "jobs").by_key(job.key)
    assert (found.state, found.error, found.statistics) == (DONE, None, {"load": {"outputRows": "3"}})
    assert recover_jobs(JobStore(tmp_path / "jobs"), catalog) == 0


def test_job_without_commit_is_done_with_an_error(tmp_path: Path) -> None:
    catalog, store = open_catalog(tmp_path), JobStore(tmp_path / "jobs")
    job = running(catalog, store, "lost")
    recover_jobs(store, catalog)
    error = store.by_key(job.key).error
    assert error is not None
    assert error["reason"] == "backendError"


def test_script_is_done_well_only_if_its_last_statement_committed(tmp_path: Path) -> None:
    catalog, store = open_catalog(tmp_path), JobStore(tmp_path / "jobs")
    ended, cut = running(catalog, store, "ended"), running(catalog, store, "cut")
    first, second = running(catalog, store, "child_1", "ended"), running(catalog, store, "child_2", "cut")
    commit(catalog, CommitInfo(first.key, {}, ended.key, {"numChildJobs": "1"}))
    commit(catalog, CommitInfo(second.key, {}, cut.key, None))
    recover_jobs(store, catalog)
    assert [store.by_key(job.key).error is None for job in (ended, first, second, cut)] == [True, True, True, False]
    assert store.by_key(ended.key).statistics == {"numChildJobs": "1"}


@pytest.mark.parametrize(
    "sql", ["SELECT v FROM d.t", "SELECT v FROM d.t;", "SELECT v FROM d.t; DELETE FROM d.t WHERE TRUE;"]
)
def test_a_query_that_had_committed_names_the_table_with_its_rows(tmp_path: Path, sql: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d; CREATE TABLE d.t AS SELECT 1 AS v")
    store = warehouse.stand_in.jobs.store
    done = warehouse.run(f"DECLARE x INT64; {sql}" if ";" in sql else sql)
    assert done.error is None
    for job in store.all():  # as they were stored when the process was killed
        if done.job_id in (job.job_id, job.parent_job_id):
            query = {key: value for key, value in job.configuration["query"].items() if key != "destinationTable"}
            store.save(replace(job, state=RUNNING, ended_us=None, statistics={}, configuration={"query": query}))
    recover_jobs(store, warehouse.stand_in.catalog)
    found = store.by_key(done.key)
    assert found.error is None
    assert found.configuration["query"]["destinationTable"] == done.configuration["query"]["destinationTable"]
