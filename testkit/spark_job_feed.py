"""Runs the Spark job on a feed without BigQuery and Airflow, for the job's tests and the benchmarks.

Landing and state are folders of this machine or buckets of an emulated Cloud Storage.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import (
    DEFAULT_FILE_BYTES,
    Attempt,
    Kind,
    ParentFiles,
    Plan,
)
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject, split_backlog
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import Candidate, DateEntry, FileList, Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.contract.table import TableContract, UpdateIdMode, changes_table_contract
from dedup_spark import storage
from dedup_spark.arrow_cast import cast_table
from dedup_spark.column_types import arrow_schema
from dedup_spark.command import read_attempt
from dedup_spark.execution.progress import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.job import DedupJob
from dedup_spark.landing.footers import has_written_schema
from dedup_spark.storage import open_parquet
from testkit.driver_session import DriverSession
from testkit.generated_tables import by_day

FEED = "feed"
LATEST_DAY = date(2030, 1, 1)  # the newest date that rows may have
RETENTION_DAY = date(2020, 1, 1)  # by default, the oldest date that rows may have
TAKEN_AT = datetime(2029, 12, 31, tzinfo=UTC)
PUBLISH_DAY = TAKEN_AT.date()  # the publish date in rows of the table of changes


@dataclass
class SparkJobFeed:
    """A feed: lands deliveries, runs the job on them, and makes each result the parent of the next publish.

    `session`: None if the jobs do not use plan window; their Spark tasks then run in this process (driver_session.py).
    `bucket`: the landing bucket, or the folder that takes its place. `state`: the URI of the feed's folder in
    the state bucket, or the path of the folder that takes its place. The fields from `mode` to `engine` become fields
    of each attempt. `with_changes`: whether the job also writes the rows that changed. `manifest`, `parent`: the
    generation that was committed last; None before the first. `_next_numbers`: yields numbers for landed files,
    arrivals and generations.
    """

    session: SparkSession | None
    bucket: str
    state: str
    table: TableContract
    mode: UpdateIdMode = UpdateIdMode.LAST_SEEN
    plan: Plan = Plan.AUTO
    date_folders: bool = True
    exact: bool = False
    file_bytes: int = DEFAULT_FILE_BYTES
    engine: Engine = Engine.SPARK
    with_changes: bool = False
    manifest: Manifest | None = None
    parent: ParentFiles | None = None
    _next_numbers: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    def folder(self, snapshot_id: int) -> str:
        """The name of the snapshot's folder in the landing bucket, with a final slash."""
        return f"{FEED}/snapshot_id={snapshot_id}/"

    def uri(self, name: str) -> str:
        """The URI, or the path, of an object in the landing bucket."""
        return storage.object_uri(self.bucket, name)

    def land(self, snapshot_id: int, rows: Sequence[dict[str, Any]], *, schema: pa.Schema | None = None) -> Arrival:
        """Write the snapshot's files and return its arrival.

        There is one file for each date; without date folders there are two files with rows of any date. If landing is a
        folder, files of an earlier delivery of the snapshot are deleted first.
        """
        number = next(iter(self._next_numbers))
        if "://" not in self.uri(""):
            shutil.rmtree(self.uri(self.folder(snapshot_id)), ignore_errors=True)
        table = pa.Table.from_pylist(list(rows), schema=schema or arrow_schema(self.table.columns))
        if self.date_folders:
            for day, rows_of_day in by_day(table, self.table.partition_column).items():
                self.put(snapshot_id, f"{self.table.date_folder}={day}/part-{number}.parquet", rows_of_day)
        else:
            half = table.num_rows // 2
            self.put(snapshot_id, f"a-{number}.parquet", table.slice(0, half))
            self.put(snapshot_id, f"b-{number}.parquet", table.slice(half))
        return self.arrive(snapshot_id)

    def put(self, snapshot_id: int, name: str, content: pa.Table | bytes) -> None:
        """Write one landed file. `name`: below the snapshot's folder. `content`: a table is written as Parquet."""
        uri = self.uri(f"{self.folder(snapshot_id)}{name}")
        with storage.open_output(uri) as stream:
            if isinstance(content, bytes):
                stream.write(content)
            else:
                pq.write_table(content, stream)

    def deliver(self, snapshot_id: int, files: Mapping[str, pa.Table | bytes]) -> Arrival:
        """Write these files, by name below the snapshot's folder, and return the arrival."""
        for name, content in files.items():
            self.put(snapshot_id, name, content)
        return self.arrive(snapshot_id)

    def arrive(self, snapshot_id: int) -> Arrival:
        """A new arrival of the snapshot. Its inventory lists the files that the snapshot's folder contains now."""
        number = next(iter(self._next_numbers))
        folder = self.folder(snapshot_id)
        listed = storage.list_objects(self.uri(folder))
        return Arrival(
            feed=FEED,
            delivery=Delivery(snapshot_id, number),
            bucket=self.bucket,
            folder=folder,
            marker=f"{folder}_SUCCESS",
            arrived_at=datetime(2026, 1, 1, tzinfo=UTC),
            objects=tuple(LandedObject(f"{folder}{n}", o.object_generation, "", o.size) for n, o in listed.items()),
            late_objects=(),
        )

    def attempt(self, arrivals: Sequence[Arrival], *, retention_day: date = RETENTION_DAY) -> Attempt:
        """The attempt of the next publish, with those of `arrivals` that no earlier publish has included."""
        generation = next(iter(self._next_numbers))
        name = f"{generation:08d}-abcdef"
        included = self.manifest.deliveries if self.manifest else ()
        backlog = split_backlog([a.delivery for a in arrivals], included, ())
        for arrival in arrivals:
            storage.create_text(storage.join(self.state, f"arrivals/{arrival.delivery.name}.json"), to_json(arrival))
        return Attempt(
            feed=FEED,
            kind=Kind.PUBLISH,
            generation=generation,
            id=name,
            parent=self.manifest.generation if self.manifest else None,
            dag_id="test",
            run_id="test",
            reason="",
            snapshot_id=0,
            taken_at=TAKEN_AT,
            code_version="0",
            table=self.table,
            update_id_mode=self.mode,
            engine=self.engine,
            date_folders=self.date_folders,
            plan=self.plan,
            retention_day=retention_day,
            latest_day=LATEST_DAY,
            deliveries=backlog.apply,
            arrivals_uri=storage.join(self.state, "arrivals/"),
            folded=included,
            excluded=(),
            parent_files=self.parent,
            data_uri=storage.join(self.state, f"data/{name}/"),
            folder_uri=storage.join(self.state, f"attempts/{name}/"),
            seed_uri=storage.join(self.state, "fingerprint_seed"),
            exact=self.exact,
            file_bytes=self.file_bytes,
            changes_uri=self._changes_folder(name) if self.with_changes else "",
            has_deleted=self.manifest is not None and self.manifest.has_deleted,
        )

    def _changes_folder(self, attempt: str) -> str:
        return storage.join(self.state, f"changes/{attempt}/")

    def run(self, attempt: Attempt) -> Candidate:
        """Run the job on an attempt, and return its candidate. Raises what the job raises."""
        uri_of_attempt = storage.join(attempt.folder_uri, "attempt.json")
        storage.write_text(uri_of_attempt, to_json(attempt))
        DedupJob(read_attempt(uri_of_attempt), self.spark, JobLog(attempt)).run()
        uri = storage.join(attempt.folder_uri, "candidate.json")
        return from_json(Candidate, storage.read_text(uri), where=uri)

    @property
    def spark(self) -> SessionSource:
        """A function that returns the session in which the job runs."""
        return lambda: self.session or cast(SparkSession, DriverSession())

    def run_tasks_in_this_process(self) -> None:
        """Run Spark tasks in this process, so that tests can change what the tasks do (driver_session.py)."""
        self.session = cast(SparkSession, DriverSession(self.session))

    def publish(self, *arrivals: Arrival, retention_day: date = RETENTION_DAY) -> Candidate:
        """Run the job on these arrivals, and make its result the parent of the next publish unless all were refused."""
        candidate = self.run(self.attempt(arrivals, retention_day=retention_day))
        if candidate.manifest:
            self.commit(candidate)
        return candidate

    def replay(self, arrival: Arrival) -> Candidate:
        """Publish once more a delivery that the table already includes."""
        attempt = replace(self.attempt([arrival]), deliveries=(arrival.delivery,))
        candidate = self.run(attempt)
        self.commit(candidate)
        return candidate

    def commit(self, candidate: Candidate) -> None:
        """Make the candidate's generation the parent of the next publish."""
        assert candidate.manifest
        assert candidate.file_list_uri
        self.manifest = candidate.manifest
        uri = storage.join(self.state, f"manifests/{self.manifest.generation}.json")
        storage.write_text(uri, to_json(self.manifest))
        self.parent = ParentFiles(
            uri,
            candidate.file_list_uri,
            self.manifest.file_list_digest,
            self.data_uri(),
        )

    def data_uri(self) -> str:
        """The URI of the committed generation's data folder."""
        assert self.manifest
        assert self.manifest.data_folder
        return self.manifest.data_folder

    def files(self) -> FileList:
        """The files of the committed generation."""
        assert self.parent
        return from_json(FileList, storage.read_text(self.parent.file_list_uri), where=self.parent.file_list_uri)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the committed generation, read from its data folder.

        Asserts that the Parquet schema of every file is the one that the job writes. Adopted files may also contain
        the Arrow schema of the program that wrote them; it is ignored here, as by BigQuery.
        """
        assert self.manifest
        found: list[dict[str, Any]] = []
        schema = arrow_schema(self.table.columns)
        for file in self.files().files:
            uri = storage.join(self.data_uri(), file.path)
            with storage.open_input(uri) as stream, open_parquet(stream) as parquet:
                assert has_written_schema(self.table.columns, parquet.schema), uri
                found += cast_table(parquet.read(), schema).to_pylist()
        return found

    def changes(self, candidate: Candidate) -> list[dict[str, Any]] | None:
        """The rows that the job wrote for the table of changes; None if the candidate names no list of their files."""
        if candidate.changes_uri is None:
            return None
        assert candidate.manifest
        found: list[dict[str, Any]] = []
        schema = arrow_schema(changes_table_contract(self.table, retention_days=0).columns)
        for file in from_json(FileList, storage.read_text(candidate.changes_uri), where="changes").files:
            uri = storage.join(self._changes_folder(candidate.manifest.attempt), file.path)
            with storage.open_input(uri) as stream, pq.ParquetFile(stream) as parquet:
                rows = parquet.read()
                assert (rows.schema, rows.num_rows) == (schema, file.rows)
                found += rows.to_pylist()
        return found

    def entry(self, day: date) -> DateEntry:
        """The entry of a date in the manifest of the committed generation."""
        assert self.manifest
        return next(e for e in self.manifest.dates if e.date == day)
