"""Connects the parts of the stand-in for BigQuery, whose data are in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bigquery_standin.background import Background
from bigquery_standin.clock import Clock
from bigquery_standin.faults import FaultRegistry
from bigquery_standin.jobs.change_apply import ApplyJob, ApplySchedule
from bigquery_standin.jobs.extract_job import ExtractJob
from bigquery_standin.jobs.job_runner import JobFunction, JobRunner
from bigquery_standin.jobs.job_store import JobStore, recover_jobs
from bigquery_standin.jobs.load_job import UPDATES_PER_10_S, LoadJob
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.query_job import QueryJob
from bigquery_standin.jobs.spark_procedures import SparkSubmit
from bigquery_standin.storage.access import Caller, Grants
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.clean_up import clean_up
from bigquery_standin.storage.streamed_rows import flush_buffers


@dataclass(frozen=True)
class StandIn:
    """All parts of one stand-in. The REST handlers, the Storage Write API and the tests use it.

    `jobs`: runs jobs of all kinds. `queries`: the function that `jobs` calls for query jobs; it also does dry runs.
    `write_api_address`: host:port of the Storage Write API, empty if it is not served.
    """

    clock: Clock
    catalog: Catalog
    background: Background
    faults: FaultRegistry
    grants: Grants
    jobs: JobRunner
    queries: QueryJob
    write_api_address: str = ""

    def caller(self, user: str) -> Caller:
        return Caller(user, self.grants)


def open_stand_in(folder: Path, updates_per_10_s: int = UPDATES_PER_10_S) -> StandIn:
    """Opens the stand-in whose data are in the folder. Starts no thread.

    Jobs that had not ended when the last process was killed are ended first, and old files are removed.
    `updates_per_10_s`: see `LoadJob`.
    """
    clock = Clock(folder / "clock.json")
    catalog = Catalog(folder, clock)
    store = JobStore(folder / "jobs")
    recover_jobs(store, catalog)
    clean_up(catalog)
    faults = FaultRegistry()
    objects = ObjectStore()
    grants = Grants(folder / "grants.json")
    queries = QueryJob(catalog, objects, grants, SparkSubmit(folder / "spark", objects), store)
    apply_job = ApplyJob(catalog)
    functions: dict[str, JobFunction] = {
        "extract": ExtractJob(catalog, objects, grants),
        "load": LoadJob(catalog, objects, updates_per_10_s),
        "query": lambda context: (apply_job if context.record.applies_changes else queries)(context),
    }
    jobs = JobRunner(store, clock, faults, functions, queries.admission)
    return StandIn(
        clock=clock,
        catalog=catalog,
        background=Background(ApplySchedule(catalog, jobs).run_due, lambda: flush_buffers(catalog)),
        faults=faults,
        grants=grants,
        jobs=jobs,
        queries=queries,
    )
