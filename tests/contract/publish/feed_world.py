"""One feed on a real object store and the stand-in, with every protocol step callable by itself."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import requests
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import LoadJob, QueryJob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import to_plain
from dedup_clone.engines.run import dedup_in_bigquery
from dedup_clone.engines.staging_job import finish_staging, staging_configuration
from dedup_clone.orchestration.swap_job import swap_configuration
from dedup_clone.publish.check import check_before_swap
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.load import begin_load, job_id, read_candidate
from dedup_clone.publish.orders import PublishOrder, SwapOrder, Trigger
from dedup_clone.publish.partition_load import dates_to_load, load_dates
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.rollback import RollbackTrigger, resolve_rollback
from dedup_clone.publish.rollback_preview import RollbackPreview, preview_rollback
from dedup_clone.publish.services import Services, open_services
from dedup_clone.settings.feed import Feed
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from tests.contract.publish.python_dedup import PythonDedup, Row, parquet_bytes

REPOSITORY = Path(__file__).parents[3]
SQL = REPOSITORY / "sql"
TODAY = datetime.now(UTC).date()
# One for all tests: a template is compiled once.
_TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(SQL), undefined=jinja2.StrictUndefined)
DAG = "feed_publish"
ROLLBACK_DAG = "feed_rollback"


def row(snapshot_id: int, product: int, value: int = 20, *, day: date = TODAY) -> Row:
    return {
        "date": day,
        "product_id": product,
        "store_id": 2072,
        "attribute_id": 1,
        "attr_value": value,
        "update_id": snapshot_id,
    }


class FeedWorld:
    """`running` are run ids that a liveness question answers with yes."""

    def __init__(self, feed: Feed, storage: Storage, bigquery: BigQuery) -> None:
        self.feed = feed
        self.bigquery = bigquery
        self.storage = storage
        self.running: set[str] = set()
        self.dedup: Any = PythonDedup(storage)
        self.now = lambda: datetime.now(UTC)

    @property
    def services(self) -> Services:
        return open_services(
            self.feed,
            state=ObjectStore(self.storage, "state"),
            landing=ObjectStore(self.storage, "landing"),
            warehouse=Warehouse(self.bigquery, project="local-dev", dataset="warehouse", location="US", sql_folder=SQL),
            job_poll_s=0.02,
            is_running=lambda dag_id, run_id: run_id in self.running,
            now=lambda: self.now(),
        )

    def land(self, snapshot_id: int, rows: list[Row]) -> str:
        """Land one delivery and register it, as the watch DAG does; returns the delivery's name."""
        folder = f"{self.feed.landing.prefix}/snapshot_id={snapshot_id}"
        bucket = self.storage.bucket("landing")
        for blob in list(bucket.list_blobs(prefix=f"{folder}/")):
            blob.delete()
        for day in sorted({r["date"] for r in rows}):
            content = parquet_bytes([r for r in rows if r["date"] == day])
            bucket.blob(f"{folder}/date={day}/part-0.parquet").upload_from_string(content)
        bucket.blob(f"{folder}/_SUCCESS").upload_from_string("")
        services = self.services
        (marker,) = [m for m in services.landing.markers() if m.delivery.snapshot_id == snapshot_id]
        services.arrivals.register(services.landing, marker)
        return marker.delivery.name

    def trigger(self, name: str, **changes: Any) -> Trigger:
        delivery = next(d for d in self.services.arrivals.deliveries() if d.name == name)
        values: dict[str, Any] = {
            "replay": False,
            "engine": None,
            "plan": None,
            "accepted_checks": (),
            "reason": "",
            **changes,
        }
        values.setdefault("run_id", f"run-{name}")
        return Trigger(dag_id=DAG, delivery=delivery, **values)

    def resolve(self, name: str, **changes: Any) -> PublishOrder:
        order = resolve(self.services, self.trigger(name, **changes))
        assert isinstance(order, PublishOrder), order
        return order

    def deduplicate(self, order: PublishOrder) -> None:
        """By the order's engine; in Spark's place a job in plain Python, unless the test has put the real one there."""
        if order.engine is Engine.SPARK:
            self.dedup.run(order.request_uri)
        else:
            dedup_in_bigquery(self.services, order.attempt)

    def load(self, order: PublishOrder) -> None:
        services = self.services
        candidate, manifest = read_candidate(services, order)
        dates = dates_to_load(services, candidate, manifest)
        if dates is not None:
            load_dates(services, order, candidate, manifest, dates)
            return
        configuration = staging_configuration(services, order, candidate, manifest)
        begin_load(services, order, manifest)
        self.run_job(order, "load", configuration)
        finish_staging(services, order, candidate, manifest)

    def check(self, order: PublishOrder) -> SwapOrder:
        return check_before_swap(self.services, order)

    def swap(self, order: PublishOrder, swap: SwapOrder) -> None:
        template = swap_configuration(self.feed.feed, self.feed.target)
        self.run_job(order, "swap", _render(template, names=self.services.names, swap=swap))

    def commit(self, order: PublishOrder) -> LedgerRecord:
        return commit_attempt(self.services, order.attempt)[0]

    def publish(self, name: str, **changes: Any) -> LedgerRecord:
        order = self.resolve(name, **changes)
        self.deduplicate(order)
        self.load(order)
        self.swap(order, self.check(order))
        return self.commit(order)

    def roll_back(self, generation: int, *, run_id: str = "rollback", reason: str = "bad snapshot") -> LedgerRecord:
        live = self.preview(generation, run_id=run_id).live_generation
        trigger = RollbackTrigger(ROLLBACK_DAG, run_id, generation, live, reason)
        order = resolve_rollback(self.services, trigger)
        if order.restored_at is None:
            self.load(order)
        self.swap(order, self.check(order))
        return self.commit(order)

    def preview(self, generation: int, *, run_id: str = "rollback") -> RollbackPreview:
        return preview_rollback(self.services, generation, dag_id=ROLLBACK_DAG, run_id=run_id)

    def overwrite(self, snapshot_id: int, path: str, content: bytes) -> None:
        """Write one landed object of a snapshot anew."""
        name = f"{self.feed.landing.prefix}/snapshot_id={snapshot_id}/{path}"
        self.storage.bucket("landing").blob(name).upload_from_string(content)

    def delay_jobs(self, job_id: str, seconds: float, *, times: int = 1) -> None:
        """The next jobs whose id matches take that much longer."""
        fault = {"match": {"job_id": job_id}, "effect": "delay", "seconds": seconds, "times": times}
        self.control("/_standin/faults", fault)

    def control(self, path: str, body: dict[str, Any]) -> None:
        """Use one of the stand-in's switches."""
        url = f"{self.bigquery._connection.API_BASE_URL}{path}"
        answer = requests.post(url, json=body, timeout=10)
        assert answer.ok, answer.text

    def wait_for_all_jobs(self) -> None:
        for job in self.bigquery.list_jobs(state_filter="running"):
            with contextlib.suppress(GoogleAPICallError):
                job.result()

    def run_job(self, order: PublishOrder, step: str, configuration: dict[str, Any]) -> None:
        name = job_id(order, step, 1)
        self.services.current.record_job(order.attempt, name)
        reference = {"projectId": "local-dev", "jobId": name, "location": "US"}
        kind = LoadJob if "load" in configuration else QueryJob
        job = kind.from_api_repr({"jobReference": reference, "configuration": configuration}, self.bigquery)
        job._begin()
        job.result()

    def rows(self, table: str | None = None) -> list[tuple[Any, ...]]:
        """(date, product, value, update id) of every row of target, sorted."""
        sql = f"SELECT date, product_id, attr_value, update_id FROM warehouse.{table or self.feed.target}"
        return sorted(tuple(r.values()) for r in self.bigquery.query_and_wait(sql))

    def live(self) -> str | None:
        facts = self.services.warehouse.table(self.feed.target)
        return None if facts is None else facts.labels.get("dedup_clone_generation")


def expected(*rows: Row) -> list[tuple[Any, ...]]:
    return sorted((r["date"], r["product_id"], r["attr_value"], r["update_id"]) for r in rows)


def _render(value: Any, **context: Any) -> Any:
    """Render a job configuration as Airflow does, with the check's XCom."""
    ti = SimpleNamespace(xcom_pull=lambda task_ids: to_plain(context["swap"]))

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return _TEMPLATES.from_string(item).render(names=context["names"], ti=ti)
        if isinstance(item, dict):
            return {key: walk(inner) for key, inner in item.items()}
        return [walk(inner) for inner in item] if isinstance(item, list) else item

    return walk(value)


YESTERDAY = TODAY - timedelta(days=1)
