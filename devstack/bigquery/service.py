"""The stand-in's parts put together over one data folder; the REST layer and the tests talk to this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devstack.bigquery.clock import Clock
from devstack.bigquery.faults import FaultBoard
from devstack.bigquery.jobs.extract import ExtractWork
from devstack.bigquery.jobs.load import LoadWork
from devstack.bigquery.jobs.query import QueryWork
from devstack.bigquery.jobs.recovery import recover_jobs
from devstack.bigquery.jobs.runner import JobRunner, Work
from devstack.bigquery.jobs.source_files import ObjectStore
from devstack.bigquery.jobs.store import JobStore
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.collector import Collector
from devstack.bigquery.storage.quotas import QuotaLimits


@dataclass(frozen=True)
class StandIn:
    clock: Clock
    catalog: Catalog
    collector: Collector
    faults: FaultBoard
    jobs: JobRunner
    queries: QueryWork
    uploads: Path


def open_stand_in(folder: Path, limits: QuotaLimits | None = None, object_store: str | None = None) -> StandIn:
    """Reads the folder and ends the jobs that a kill left under way. Nothing runs in the background yet."""
    clock = Clock(folder / "clock.json")
    catalog = Catalog(folder, clock, limits)
    store = JobStore(folder / "jobs")
    recover_jobs(store, catalog)
    uploads = folder / "uploads"
    uploads.mkdir(parents=True, exist_ok=True)
    for left_over in uploads.iterdir():
        left_over.unlink()
    faults = FaultBoard()
    objects = ObjectStore(object_store)
    queries = QueryWork(catalog, objects)
    works: dict[str, Work] = {"load": LoadWork(catalog, objects, uploads), "query": queries}
    works["extract"] = ExtractWork(catalog, objects)
    return StandIn(
        clock=clock,
        catalog=catalog,
        collector=Collector(catalog),
        faults=faults,
        jobs=JobRunner(store, clock, faults, works, {"query": queries.admission}),
        queries=queries,
        uploads=uploads,
    )
