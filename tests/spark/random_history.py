"""Makes random histories of a feed: publishes of all sorts, rollbacks, erasures, rebuilds, and changes of the feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Duplicates, Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate, DateOutcome
from dedup_clone.contract.table import Absent, Column, TableContract, UpdateIdMode
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.sketch import stored
from testkit.generated_tables import GeneratedHistory, by_day, random_table
from testkit.oracle import OracleState
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import EVERY_KEY, NESTED, PRODUCTS, by_time
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.erased_keys import erase
from tests.spark.product_rows import FIRST

EXPORT = 2**63 - 2
ONLY_DATE = replace(
    EVERY_KEY,
    columns=(Column("day", "DATE"), Column("value", "STRING"), Column("version", "INT64")),
    keys=("day",),
    cluster_by=(),
)
# How often a history takes each step; the names are those of the methods of RandomHistory.
PUBLISHES = {
    "next_snapshot": 6,
    "next_two_snapshots": 2,
    "late_snapshot": 3,
    "corrected_snapshot": 2,
    "replay": 2,
    "replay_dates": 3,
}
OPERATIONS = {"rollback": 3, "erasure": 2, "rebuild": 2, "new_column": 1, "other_mode": 1, "expiration": 1}
# What becomes of keys and dates that the newest snapshot lacks.
ABSENT = [(Absent.KEEP, Absent.KEEP), (Absent.DELETE, Absent.KEEP), (Absent.DELETE, Absent.DELETE)]
WEIGHTS = PUBLISHES | OPERATIONS | {"other_absent": 1}


@dataclass(frozen=True)
class Choices:
    """What a history may do. `has_dataframes`: whether it has a Spark session, for all that is left to DataFrames."""

    plans: Sequence[Plan]
    has_dataframes: bool


def random_history(random: Random, folder: Path, session: SparkSession | None, plans: Sequence[Plan]) -> RandomHistory:
    """A feed with a random table, mode and settings. Without a session nothing is left to Spark's DataFrames."""
    times = by_time(random.choice([PRODUCTS, NESTED, ONLY_DATE]), random.choice(["DATETIME", "TIMESTAMP"]))
    table = random.choice([PRODUCTS, PRODUCTS, NESTED, EVERY_KEY, ONLY_DATE, times, times, *[_any_table(random)] * 3])
    mode = random.choice(list(UpdateIdMode))
    has_dataframes = session is not None
    feed = SparkJobFeed(
        session,
        str(folder / "landing"),
        str(folder / "state"),
        table,
        mode,
        date_folders=not has_dataframes or random.random() < 0.6,
        exact=(has_dataframes or mode is UpdateIdMode.LAST_SEEN) and random.random() < 0.2,
        # Spark has a task for each file, so with a session files are not as small as can be.
        file_bytes=random.choice([1 << 20, 1 << 11, *[1] * (not has_dataframes)]),
        with_changes=random.random() < 0.6,
    )
    if feed.exact:
        feed.with_changes = False
    repeat, sizes = random.choice([0.0, 0.05, 0.5]), random.choice([(1, 20), (7,), (30, 120)])
    absent = random.choice([ABSENT[0], *ABSENT])
    snapshots = GeneratedHistory(table, random, FIRST, repeat=repeat, sizes=sizes)
    history = RandomHistory(JobAgainstOracle(feed), snapshots, random, Choices(plans, has_dataframes))
    history.set_absent(*absent)
    return history


def _any_table(random: Random) -> TableContract:
    return random_table(random, floats_in_arrays=True)


class RandomHistory:
    """Takes random steps. `restorable`: the generations that a rollback may restore, with the oracle's states."""

    def __init__(self, job: JobAgainstOracle, snapshots: GeneratedHistory, random: Random, choices: Choices) -> None:
        self.job, self.feed = job, job.feed
        self.snapshots = snapshots
        self.random = random
        self.choices = choices
        self.restorable: list[tuple[Candidate, OracleState]] = []

    def play(self, steps: int, weights: dict[str, int] = WEIGHTS) -> None:
        names = ["next_snapshot", *self.random.choices(list(weights), list(weights.values()), k=steps)]
        for name in names:
            getattr(self, name)()

    def next_snapshot(self) -> None:
        self._publish([self._land(self._newest_id + 10)], self._any_plan())

    def next_two_snapshots(self) -> None:
        if self.choices.has_dataframes:
            self._publish([self._land(self._newest_id + 10), self._land(self._newest_id + 10)], self._any_plan())
        elif self._is_last_seen:
            self._publish([self._land(self._newest_id + 10), self._land(self._newest_id + 10)], Plan.AUTO)

    def late_snapshot(self) -> None:
        if self._is_last_seen:
            free = sorted(set(range(1, self._newest_id)) - set(self.job.landed))
            late = [self._land(self.random.choice(free))]
            if self.choices.has_dataframes and self.random.random() < 0.5:
                late.append(self._land(self._newest_id + 10))
            self._publish(late, self._any_plan())

    def corrected_snapshot(self) -> None:
        self._publish([self._land(self._newest_id)], self._any_plan())

    def replay(self) -> None:
        self._publish([self._known_id()], self._any_plan())

    def replay_dates(self) -> None:
        if not self.feed.date_folders:
            return
        snapshot_id = self._known_id()
        dates = sorted(set(map(self.job.state.table.day, self.job.landed[snapshot_id][1])))
        some = tuple(self.random.sample(dates, self.random.randint(1, len(dates))))
        self.feed.plan = Plan.AUTO
        self._remember(self.job.publish(snapshot_id, dates=some))

    def rollback(self) -> None:
        """As the publish protocol does it: the manifest of the restored generation under another number."""
        if not self.restorable:
            return
        candidate, state = self.random.choice(self.restorable)
        assert candidate.manifest
        restored = replace(
            candidate.manifest,
            generation=self.feed.attempt([]).generation,
            restores=candidate.manifest.generation,
            dates=tuple(replace(e, changed=None, plan=DateOutcome.RESTORED) for e in candidate.manifest.dates),
        )
        self.feed.commit(replace(candidate, manifest=restored))
        for name in self.job.state.table.value_columns:
            state = state if name in state.table.value_columns else state.with_column(name)
        now = self.job.state
        self.job.state = replace(
            state,
            counts={},
            last_changed=now.last_changed,
            deletes_keys=now.deletes_keys,
            deletes_dates=now.deletes_dates,
        )

    def erasure(self) -> None:
        """Erase one key, or all keys that the newest snapshot of a date contains, from all dates."""
        state, table = self.job.state, self.job.state.table
        names = [name for name in table.keys if name != table.partition_column]
        if self.feed.table.keys != PRODUCTS.keys or not state.rows or len(self.job.erasures) == 2:
            return
        day = self.random.choice(sorted(set(map(table.day, state.rows.values()))))
        rows = [row for row in state.rows.values() if table.day(row) == day]
        newest = [row for row in rows if row[table.snapshot_id_column] == state.newest.get(day)]
        erased = {tuple(row[name] for name in names) for row in self.random.choice([rows[:1], newest or rows[:1]])}
        moments = [moment for number in range(self.snapshots.days) for moment in self.snapshots.moments(number)]
        keys = frozenset((moment, *key) for moment in moments for key in erased)
        if len(keys & state.rows.keys()) < len(state.rows):
            lines = [",".join(names), *(",".join(map(str, key)) for key in sorted(erased))]
            erasure = erase(self.feed, "".join(f"{line}\n" for line in lines), *self.job.erasures)
            self.job.erasures = (*self.job.erasures, erasure)
            self.job.state = state.erase(keys)
            self.job.compare()
            self.restorable.clear()

    def rebuild(self) -> None:
        state = replace(self.job.state.apply([], self.job.retention_day), dropped=0)
        if not state.rows:
            return
        assert self.feed.manifest
        newest = {e.date: e.newest_snapshot for e in self.feed.manifest.dates if e.newest_snapshot is not None}
        arrival = self.feed.land(EXPORT, list(state.rows.values()))
        attempt = self.feed.attempt([arrival], retention_day=self.job.retention_day)
        attempt = replace(attempt, parent_files=None, takes_over=Duplicates.REFUSE, newest_snapshots=newest)
        self.job.commit(self.feed.run(replace(attempt, plan=Plan.REWRITE)), state, is_publish=False)
        self.restorable.clear()

    def new_column(self) -> None:
        column = Column(f"note_{len(self.feed.table.columns)}", self.random.choice(["STRING", "INT64"]))
        self.job.since = {**self.job.since, column.name: self._newest_id + 1}
        self.snapshots.add_column(column)
        self.feed.table = self.snapshots.table
        self.job.state = self.job.state.with_column(column.name)

    def other_mode(self) -> None:
        modes = {UpdateIdMode.LAST_SEEN: UpdateIdMode.LAST_CHANGED, UpdateIdMode.LAST_CHANGED: UpdateIdMode.LAST_SEEN}
        if self.choices.has_dataframes or not self.feed.exact:
            self.feed.mode = modes[self.feed.mode]
            self.job.state = replace(self.job.state, last_changed=not self.job.state.last_changed)

    def other_absent(self) -> None:
        self.set_absent(*self.random.choice(ABSENT))

    def set_absent(self, keys: Absent, dates: Absent) -> None:
        self.job.set_absent(keys, dates)
        self.snapshots.table = self.feed.table

    def expiration(self) -> None:
        self.job.retention_day = FIRST + timedelta(days=1)

    @property
    def _newest_id(self) -> int:
        return max(self.job.landed, default=0)

    @property
    def _is_last_seen(self) -> bool:
        return self.feed.mode is UpdateIdMode.LAST_SEEN

    def _known_id(self) -> int:
        """A landed snapshot; in mode last_changed the newest one, because others are refused as late."""
        return self.random.choice(sorted(self.job.landed)) if self._is_last_seen else self._newest_id

    def _any_plan(self) -> Plan:
        return self.random.choice(self.choices.plans)

    def _land(self, snapshot_id: int) -> int:
        rows = self.snapshots.snapshot(snapshot_id)
        if not self.feed.date_folders:
            return self.job.land(snapshot_id, rows)
        self.job.landed[snapshot_id] = land_in_pieces(self.feed, self.random, snapshot_id, rows), rows
        return snapshot_id

    def _publish(self, snapshot_ids: Sequence[int], plan: Plan) -> None:
        spoil_fingerprints(self.feed, self.random)
        self._remember(self.job.publish(*snapshot_ids, plan=plan))

    def _remember(self, candidate: Candidate) -> None:
        self.restorable.append((candidate, self.job.state))


def land_in_pieces(feed: SparkJobFeed, random: Random, snapshot_id: int, rows: list[Row]) -> Arrival:
    """Several files a date, several row groups a file, empty files among them; none of an earlier delivery is left.

    Some files have other types, another order of columns, or lack those that their folders name.
    """
    folder = feed.uri(feed.folder(snapshot_id))
    for name in storage.list_objects(folder):
        storage.delete(storage.join(folder, name))
    files: dict[str, bytes | Any] = {}
    table = pa.Table.from_pylist(rows, schema=arrow_schema(feed.table.columns))
    for day, part in by_day(table, feed.table.partition_column).items():
        cut = random.randrange(part.num_rows + 1)
        for number, piece in enumerate((part.slice(0, cut), part.slice(cut))):
            stream = pa.BufferOutputStream()
            piece = in_another_form(feed.table, random, piece) if random.random() < 0.3 else piece
            pq.write_table(piece, stream, row_group_size=random.choice([3, 1000]))
            files[f"{feed.table.date_folder}={day}/{snapshot_id}-{number}.parquet"] = stream.getvalue().to_pybytes()
    return feed.deliver(snapshot_id, files)


def in_another_form(table: TableContract, random: Random, rows: pa.Table) -> pa.Table:
    """The same rows as another producer may write them."""
    in_folders = sorted(table.columns_in_folders(date_folders=True))
    rows = rows.drop_columns([name for name in in_folders if random.random() < 0.5])
    rows = rows.select(random.sample(rows.column_names, rows.num_columns))
    for number, field in enumerate(rows.schema):
        narrow = _narrower(field.type)
        if narrow is None or random.random() < 0.5:
            continue
        try:
            column = rows[field.name].cast(narrow)
        except pa.ArrowInvalid:
            continue  # it does not hold all values
        rows = rows.set_column(number, field.with_type(narrow), column)
    return rows


def _narrower(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", kind.tz)
    return {pa.int64(): pa.int32(), pa.decimal128(38, 9): pa.decimal128(12, 2)}.get(kind)


def spoil_fingerprints(feed: SparkJobFeed, random: Random) -> None:
    """Sometimes an object is gone or damaged when the next publish comes."""
    if not feed.parent:
        return
    folder = Path(storage.join(feed.parent.data_uri, stored.FOLDER))
    for path in sorted(folder.glob("*.bin")) if folder.is_dir() else []:
        chance = random.random()
        if chance < 0.1:
            path.unlink()
        elif chance < 0.2:
            content = bytearray(path.read_bytes())
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
            path.write_bytes(content)
