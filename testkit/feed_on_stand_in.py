"""Publishes one feed on fake-gcs-server and the BigQuery stand-in without Airflow: each step is a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from google.api_core.exceptions import Conflict
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import LoadJob, QueryJob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.engine import Engine
from dedup_clone.engines.dedup_in_bigquery import dedup_in_bigquery
from dedup_clone.engines.staging_job import finish_staging, staging_configuration
from dedup_clone.engines.stream_changes import changes_to_stream, finish_if_applied, stream_changes
from dedup_clone.operations import rollback
from dedup_clone.publish.attempt_jobs import attempt_job_id
from dedup_clone.publish.attempts import SwapSpec
from dedup_clone.publish.check import check_before_swap
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.held_deliveries import is_reused
from dedup_clone.publish.load import begin_load, dates_to_load, load_dates, prepare_load, read_candidate
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.publish.recovery import end_if_all_refused
from dedup_clone.publish.reporting import LONGEST_PAUSE, load_ledger_rows
from dedup_clone.publish.resolve import PublishRequest, resolve
from dedup_clone.publish.services import Clients, Services
from dedup_clone.publish.swap import begin_swap, finish_swap
from dedup_clone.settings.feed import Feed
from dedup_clone.state.ledger import LedgerRecord, ReportingBacklog
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from testkit.dedup_job import DedupInThisProcess, Row, parquet_bytes
from testkit.server_clients import ControlledStandIn
from testkit.state_reader import StateReader

REPOSITORY = Path(__file__).parents[1]
SQL = REPOSITORY / "sql"
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)


def today() -> date:
    """The date by which the product judges now. TODAY is that of the tests' start, perhaps before midnight."""
    return datetime.now(UTC).date()


DAG = "feed_publish"
ROLLBACK_DAG = "feed_rollback"
ERASE_DAG = "feed_erase"
KEYS_FILE = "keys.csv"


def row(snapshot_id: int, product: int, value: int = 20, *, day: date = TODAY) -> Row:
    """A row of the worked example's table."""
    return {
        "date": day,
        "product_id": product,
        "store_id": 2072,
        "attribute_id": 1,
        "attr_value": value,
        "update_id": snapshot_id,
    }


def job_id(attempt: Attempt, step: str, number: int) -> str:
    """The id of the BigQuery job with this number in a step of the attempt. Numbers start at 1."""
    return attempt_job_id(attempt.feed, attempt.id, step, number)


@dataclass(frozen=True)
class Places:
    """The project, dataset, location and GCS buckets of a feed; by default those of the local servers."""

    project: str = "local-dev"
    dataset: str = "warehouse"
    location: str = "US"
    landing: str = "landing"
    state: str = "state"


LOCAL = Places()


class FeedOnStandIn(ControlledStandIn):
    """A feed, and the steps of its publishes in the order in which the DAG runs them.

    Tests may set four attributes. `running`: ids of the DAG runs that the steps see as running. `dedup`: an object
    whose method `run(request_uri)` runs the dedup job. `now`: returns the current time for the steps.
    `environment`: the name of the Airflow environment that the steps run in.
    """

    def __init__(self, feed: Feed, storage: Storage, bigquery: BigQuery, places: Places = LOCAL) -> None:
        super().__init__(bigquery)
        self.feed = feed
        self.places = places
        self.storage = storage
        self.environment = "airflow.example.org"
        self.running: set[str] = set()
        self.dedup: Any = DedupInThisProcess(storage)
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def services(self) -> Services:
        clients = Clients(
            state=ObjectStore(self.storage, self.places.state),
            landing=ObjectStore(self.storage, self.places.landing),
            warehouse=Warehouse(
                self.bigquery,
                project=self.places.project,
                dataset=self.places.dataset,
                location=self.places.location,
                sql_folder=SQL,
            ),
            job_poll_s=0.02,
        )
        return clients.of_feed(
            self.feed,
            environment=self.environment,
            is_running=lambda dag_id, run_id: run_id in self.running,
            now=lambda: self.now(),
        )

    @property
    def state(self) -> StateReader:
        """The feed's objects in the state bucket."""
        return self.state_of(self.feed.feed)

    def state_of(self, folder: str) -> StateReader:
        """The objects in another folder of the state bucket, such as those of all feeds in `_reporting`."""
        return StateReader(self.storage, self.places.state, folder)

    def configure(self, **sections: Any) -> None:
        """Change the feed file. A dict has fields of a section; the others of that section stay as they are."""
        values = self.feed.model_dump()
        for name, value in sections.items():
            values[name] = values[name] | value if isinstance(value, dict) else value
        self.feed = Feed.model_validate(values, strict=False)

    def move_clock(self, by: timedelta) -> None:
        """Move the clock of the steps, but not that of the stand-in."""
        clock = self.now
        self.now = lambda: clock() + by

    def land(self, snapshot_id: int, rows: list[Row]) -> str:
        """Land one delivery and register it, as the watch DAG does. Returns the delivery's name."""
        days = sorted({r["date"] for r in rows})
        files = {f"date={day}/part-0.parquet": parquet_bytes([r for r in rows if r["date"] == day]) for day in days}
        return self.land_files(snapshot_id, files)

    def land_files(self, snapshot_id: int, files: Mapping[str, bytes]) -> str:
        """Like `land`, with the content of each file by its name below the delivery's folder.

        What an earlier delivery of the snapshot has left in landing is deleted first.
        """
        folder = f"{self.feed.landing.prefix}/snapshot_id={snapshot_id}"
        bucket = self.storage.bucket(self.places.landing)
        for blob in list(bucket.list_blobs(prefix=f"{folder}/")):
            blob.delete()
        for path, content in files.items():
            bucket.blob(f"{folder}/{path}").upload_from_string(content)
        bucket.blob(f"{folder}/{self.feed.landing.marker}").upload_from_string("")
        services = self.services
        (marker,) = [m for m in services.landing.markers() if m.delivery.snapshot_id == snapshot_id]
        services.arrivals.register(services.landing, marker)
        return marker.delivery.name

    def publish_request(self, name: str, **changes: Any) -> PublishRequest:
        """The request of a run of the publish DAG for the delivery `name`. `changes`: other values of its fields."""
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
        values["engine"] = values["engine"] and Engine(values["engine"])
        return PublishRequest(dag_id=DAG, delivery=delivery, **values)

    def resolve(self, name: str, *, shown: Any = None, **changes: Any) -> Attempt:
        """Run the resolve step for the delivery `name`. `changes`: other values of the fields of PublishRequest.

        `shown`: what was approved, if the publish accepts failed checks; by default what the preview says now.
        """
        request = self.publish_request(name, **changes)
        if request.accepted_checks and shown is None:
            shown, _ = preview_publish(self.services, request)
        attempt = resolve(self.services, request, shown)
        assert isinstance(attempt, Attempt), attempt
        return attempt

    def nothing_to_do(self, name: str, **changes: Any) -> str:
        """Run the resolve step for a delivery that needs no publish. Returns the reason that it gives."""
        reason = resolve(self.services, self.publish_request(name, **changes))
        assert isinstance(reason, str), reason
        return reason

    def deduplicate(self, attempt: Attempt) -> None:
        """Run the dedup step of the attempt's engine. For spark and cdc this calls `dedup`."""
        if is_reused(self.services, attempt.id):
            return
        if attempt.engine.runs_spark:
            self.dedup.run(attempt.uri)
        else:
            dedup_in_bigquery(self.services, attempt.id)
        end_if_all_refused(self.services, attempt.id)

    def load(self, attempt: Attempt, number: int = 1) -> None:
        """Run the load step. `number`: that of the step's BigQuery job; higher than 1 if earlier jobs have failed."""
        services = self.services
        candidate, manifest = read_candidate(services, attempt.id)
        changes = changes_to_stream(services, attempt, candidate, manifest)
        if changes is not None:
            stream_changes(services, attempt, manifest, changes, sleep=lambda s: self.pass_time(timedelta(seconds=s)))
            while not finish_if_applied(services, attempt, manifest):
                self.wait_for_changes()
            return
        prepare_load(services, attempt)
        dates = dates_to_load(services, candidate, manifest)
        if dates is not None:
            load_dates(services, attempt, candidate, manifest, dates)
            return
        configuration = staging_configuration(services, attempt, candidate, manifest)
        begin_load(services, attempt, [job_id(attempt, "load", number)])
        self.run_job(attempt, "load", configuration, number)
        finish_staging(services, attempt, candidate, manifest)

    def wait_for_changes(self) -> None:
        """Advance the stand-in's clock by the time after which it must have applied streamed changes."""
        self.pass_time(timedelta(minutes=self.feed.cdc.max_staleness_minutes))

    def check(self, attempt: Attempt) -> SwapSpec:
        """Run the checks before the swap. Raises CheckFailed if one fails."""
        return check_before_swap(self.services, attempt)

    def swap(self, attempt: Attempt, swap: SwapSpec, number: int = 1) -> None:
        """Run the swap step. `number`: that of the step's BigQuery job; higher than 1 if earlier jobs have failed."""
        configuration = begin_swap(self.services, attempt, swap, job_id(attempt, "swap", number))
        self.run_job(attempt, "swap", configuration, number)
        self.finish_swap(swap)

    def finish_swap(self, swap: SwapSpec) -> None:
        """Do what follows the job of a swap that has ended."""
        finish_swap(self.services, swap)

    def commit(self, attempt: Attempt) -> LedgerRecord:
        return commit_attempt(self.services, attempt.id)[0]

    def publish(self, name: str, **changes: Any) -> LedgerRecord:
        """Publish the delivery `name`. `changes`: other values of the fields of PublishRequest."""
        attempt, checked = self.publish_to_check(name, **changes)
        self.swap(attempt, checked)
        return self.commit(attempt)

    def publish_to_check(self, name: str, **changes: Any) -> tuple[Attempt, SwapSpec]:
        """Publish the delivery up to the checks before the swap. Returns what the swap needs."""
        attempt = self.resolve(name, **changes)
        self.deduplicate(attempt)
        self.load(attempt)
        return attempt, self.check(attempt)

    def write_reporting_tables(self, *, sleep: Callable[[float], None] = lambda seconds: None) -> None:
        """Load all rows that the ledger table lacks, as later runs of the watchdog do. `sleep`: between two loads."""
        while ReportingBacklog(self.services.store).waiting():
            self.load_ledger_rows(later=LONGEST_PAUSE, sleep=sleep)

    def load_ledger_rows(
        self, *, later: timedelta = timedelta(0), sleep: Callable[[float], None] = lambda seconds: None
    ) -> None:
        """Load the rows that the ledger table lacks and that are due `later`, as one run of the watchdog does."""
        load_ledger_rows(replace(self.services, now=lambda: self.services.now() + later), sleep=sleep)

    def roll_back(self, generation: int, *, run_id: str = "rollback") -> LedgerRecord:
        """Make the content of an earlier generation live again, as the rollback DAG does."""
        live, _ = self.preview(generation, run_id=run_id)
        reason = "bad snapshot"
        request = rollback.RollbackRequest(dag_id=ROLLBACK_DAG, run_id=run_id, generation=generation, reason=reason)
        attempt = rollback.prepare(self.services, request, live)
        if attempt.restored_at is None:
            self.load(attempt)
        self.swap(attempt, self.check(attempt))
        return self.commit(attempt)

    def preview(self, generation: int, *, run_id: str = "rollback") -> tuple[int, str]:
        """The live generation, and the text that the rollback DAG shows for approval."""
        request = rollback.RollbackRequest(dag_id=ROLLBACK_DAG, run_id=run_id, generation=generation, reason="")
        return rollback.preview(self.services, request)

    def overwrite(self, snapshot_id: int, path: str, content: bytes) -> None:
        """Overwrite one landed object of a snapshot."""
        name = f"{self.feed.landing.prefix}/snapshot_id={snapshot_id}/{path}"
        self.storage.bucket(self.places.landing).blob(name).upload_from_string(content)

    def spoil(self, snapshot_id: int) -> None:
        """Overwrite or add a landed object of a snapshot, so that the dedup job refuses the delivery."""
        self.overwrite(snapshot_id, f"date={TODAY}/part-0.parquet", b"other")

    def run_job(self, attempt: Attempt, step: str, configuration: dict[str, Any], number: int = 1) -> None:
        """Record the id of a step's `number`-th BigQuery job in the lease, insert the job and wait for its end."""
        job = self.record_job(attempt, step, configuration, number)
        with suppress(Conflict):  # the client repeats a request whose answer was lost
            job._begin()
        self.bigquery.get_job(job.job_id, project=self.places.project, location=self.places.location).result()

    def record_job(self, attempt: Attempt, step: str, configuration: dict[str, Any], number: int = 1) -> Any:
        """The step's `number`-th BigQuery job: its id is recorded in the lease, and it is not made yet."""
        name = job_id(attempt, step, number)
        self.services.current.record_jobs(attempt.id, [name])
        reference = {"projectId": self.places.project, "jobId": name, "location": self.places.location}
        kind = LoadJob if "load" in configuration else QueryJob
        return kind.from_api_repr({"jobReference": reference, "configuration": configuration}, self.bigquery)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, in which tables have no dataset but a dot before their name. Returns the rows."""
        return [tuple(r.values()) for r in self.bigquery.query_and_wait(sql.replace(" .", f" {self.places.dataset}."))]

    def reported(self, columns: str, table: str = "ledger") -> list[tuple[Any, ...]]:
        """The feed's rows in a reporting table (ledger or status), ordered by generation."""
        where = f"WHERE feed = '{self.feed.feed}' ORDER BY generation"
        return self.query(f"SELECT {columns} FROM .dedup_clone_{table} {where}")

    def rows(self, table: str | None = None) -> list[tuple[Any, ...]]:
        """All rows of target (or of `table`), as sorted tuples of date, product, value and update id."""
        dataset = self.places.dataset
        sql = f"SELECT date, product_id, attr_value, update_id FROM {dataset}.{table or self.feed.target}"
        return sorted(tuple(r.values()) for r in self.bigquery.query_and_wait(sql))

    def rows_by_partition(self, table: str | None = None) -> dict[str, int]:
        """How many rows each partition of target (or of `table`) has, by the partition's id."""
        where = f"WHERE table_name = '{table or self.feed.target}'"
        return dict(self.query(f"SELECT partition_id, total_rows FROM .INFORMATION_SCHEMA.PARTITIONS {where}"))

    def loads_of(self, attempt: str) -> list[str]:
        """The load jobs of an attempt, sorted: `load` for the whole table, `load_<date>` for one partition."""
        steps = [job.job_id.rsplit("-", 2)[1] for job in self.jobs() if attempt in job.job_id]
        return sorted(step for step in steps if step.startswith("load"))

    def label(self, **labels: str | None) -> None:
        """Change labels of target, as a person may. None removes a label."""
        table = self.bigquery.get_table(f"{self.places.dataset}.{self.feed.target}")
        table.labels = {**table.labels, **labels}
        self.bigquery.update_table(table, ["labels"])

    def incoming(self) -> list[str]:
        """What the names of the feed's incoming tables end with: the attempts that have one."""
        prefix = f"{self.feed.target}_incoming_"
        names = [table.table_id for table in self.bigquery.list_tables(self.places.dataset)]
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    def live(self) -> str | None:
        """The live generation according to target's label; None without a table or a label."""
        facts = self.services.warehouse.table(self.feed.target)
        return None if facts is None else facts.labels.get("dedup_clone_generation")


def expected(*rows: Row) -> list[tuple[Any, ...]]:
    """These rows in the form of FeedOnStandIn.rows."""
    return sorted((r["date"], r["product_id"], r["attr_value"], r["update_id"]) for r in rows)
