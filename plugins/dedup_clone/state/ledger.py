"""The ledger: one record for each attempt that has ended, and what the reporting tables still lack.

The watchdog looks at all feeds at once, so the objects are below `_reporting/` and not in the folder of a feed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout, generation_of, generation_prefix
from dedup_clone.state.store import ObjectStore, StoredText

# Medians (of row shares, seconds, phases) are taken over this many of the newest publishes.
PUBLISHES_COMPARED = 20
RECENT_ATTEMPTS = 100  # the newest attempts, which the page and the checks of a publish read
LAST_ATTEMPTS = 30  # the newest attempts, which the watchdog reads while a delivery waits


class Outcome(StrEnum):
    """PUBLISHED: the swap was committed. REFUSED: every delivery was refused. FAILED: the attempt ended otherwise."""

    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"


class Stage(StrEnum):
    """What an attempt had reached when it ended.

    DEDUP: its dedup had no generation as its result. LOAD: it had one, and the load had not begun. CHECK: the load had
    begun. COMMIT: the swap was committed.
    """

    DEDUP = "dedup"
    LOAD = "load"
    CHECK = "check"
    COMMIT = "commit"


@dataclass(frozen=True)
class Cost:
    """Cost of the attempt's queries, of streaming by engine `cdc`, and of Spark.

    The columns of the ledger table have the same names and are described there (publish/reporting.py).
    `merge_usd` and `qualify_usd` are None, too, for an empty table, and if the parent could not be read.
    """

    query_bytes_billed: int
    table_bytes_read: int
    slot_ms: int
    query_usd: float
    merge_usd: float | None
    qualify_usd: float | None
    streamed_bytes: int = 0
    apply_bytes: int = 0
    stream_usd: float = 0.0
    spark_usd: float | None = None
    dcu_hours: float | None = None

    @property
    def total_usd(self) -> float:
        return self.query_usd + self.stream_usd + (self.spark_usd or 0.0)


@dataclass(frozen=True)
class LedgerRecord:
    """One attempt. publish/reporting.py describes the columns of the ledger table that have the same names.

    - stage: what it had reached when it ended. BigQuery's quotas count the load of an attempt that reached CHECK.
    - deliveries: those that were applied whole: none for rollbacks, replays of single dates, bootstraps, rebuilds and
      erasures. For a failed or refused publish: the deliveries that it was to apply.
    - snapshot_id, arrived_at: of the newest delivery in the generation. For a failed attempt: of the newest delivery
      that the attempt would have applied. For a bootstrap, and for a rebuild or erasure that failed: the highest id of
      a snapshot or row (0 while unknown), and the time when the attempt acquired the lease. While the generation
      includes no delivery, these stay those of the bootstrap.
    - lag_s: None, too, if the arrival or the parent could not be read.
    - phases: empty if they could not be read. For a failed or refused attempt: the phases of its dedup job.
    - cost: None if it could not be read. For a failed or refused attempt: as far as it is recorded.
    - loads: number of load jobs of the whole table (with an SQL engine: of jobs with its statement), including failed
      jobs. All loads of single dates together count as one.
    - change_rows: number of rows that the job wrote for `FEED_changes`; None if it wrote no changes.
    - taken_over: whether the generation includes no delivery, so that readers see the rows of a table that was taken
      over; False also for an attempt that failed.
    - is_replay: whether it published deliveries again that were live before, or some of their dates; False also for an
      attempt that failed.
    - changed_rows: None if some date's values were not compared, and for a failed or refused attempt.
    """

    feed: str
    kind: Kind
    outcome: Outcome
    stage: Stage
    reason: str
    snapshot_id: int
    deliveries: tuple[Delivery, ...]
    generation: int
    parent: int | None
    attempt: str
    dag_id: str
    run_id: str
    restores: int | None
    engine: Engine
    arrived_at: datetime
    plans: tuple[str, ...] = ()
    swapped_at: datetime | None = None
    lag_s: float | None = None
    rows: int = 0
    new_rows: int = 0
    changed_rows: int | None = None
    kept_rows: int = 0
    dropped_rows: int = 0
    ties: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    cost: Cost | None = None
    loads: int = 1
    erased_rows: int | None = None
    cluster_overlap: float | None = None
    change_rows: int | None = None
    taken_over: bool = False
    is_replay: bool = False

    @property
    def has_usual_shares(self) -> bool:
        """Whether the shares are those of deliveries that became live for the first time, on dates of a parent.

        A first publish and a replay that changes nothing have shares of 0, which would lower the median.
        """
        return self.parent is not None and self.lag_s is not None


def count_loads(job_ids: Iterable[str]) -> int:
    """The number of loads (see `LedgerRecord.loads`) among these BigQuery jobs of one attempt."""
    steps = [job_id.rsplit("-", 2)[1] for job_id in job_ids]  # ids end in `-<step>-<number>`
    # Engine `merge` may run a second job for the whole table, of step `replace`.
    return steps.count("load") + steps.count("replace") + any(step.startswith("load_") for step in steps)


class Ledger:
    """The records below `ledger/`. They are named after their attempts, which sort by generation."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def write(self, record: LedgerRecord) -> None:
        """Write the record, unless the attempt has one already."""
        self._store.create(self._layout.ledger_record(record.attempt), to_json(record))

    def read(self, attempt: str) -> LedgerRecord | None:
        """The record of one attempt; None when it has none yet."""
        return self._store.read_record(LedgerRecord, self._layout.ledger_record(attempt))

    def of_generation(self, generation: int | None) -> LedgerRecord | None:
        """The record of the attempt that has this generation's number; None if there is none."""
        if generation is None:
            return None
        records = self._store.read_reports(
            LedgerRecord, self._names(f"{self._layout.ledger}{generation_prefix(generation)}")
        )
        return records[-1] if records else None

    def recent(self, last_generation: int, count: int = RECENT_ATTEMPTS) -> list[LedgerRecord]:
        """The records of the newest `count` attempts, newest last. `last_generation`: the one in CURRENT."""
        return self._store.read_reports(LedgerRecord, self.recent_names(last_generation, count))

    def recent_names(self, last_generation: int, count: int = RECENT_ATTEMPTS) -> list[str]:
        """The object names of the records that `recent` reads. Records never change."""
        first = f"{self._layout.ledger}{generation_prefix(max(0, last_generation - count + 1))}"
        return self._names(self._layout.ledger, first)[-count:]

    def _names(self, prefix: str, first: str = "") -> list[str]:
        """The names of the records, in the order of their generations, beginning with the name `first`."""
        names = [info.name for info in self._store.objects(prefix, first=first)]
        return [name for name in names if name.endswith(".json") and generation_of(name) is not None]


FOLDER = "_reporting/"  # no feed can have this name
LEDGER = f"{FOLDER}ledger/"  # each object is the row of the ledger table
CHANGES = f"{FOLDER}changes/"  # each object is the list of files with the attempt's changes
_ENDING = {LEDGER: ".json", CHANGES: ".txt"}


@dataclass(frozen=True)
class WaitingRows:
    """Rows of an attempt that a table lacks. `since`: when that was stored."""

    feed: str
    attempt: str
    since: datetime


class ReportingBacklog:
    """What a table lacks of all feeds. `folder`: LEDGER or CHANGES."""

    def __init__(self, store: ObjectStore, folder: str = LEDGER) -> None:
        self._store = store
        self._folder = folder

    def add(self, feed: str, attempt: str, text: str) -> None:
        """Store what the table lacks until it has it. Does nothing if it is stored."""
        self._store.create(self.name(feed, attempt), text)

    def add_row(self, feed: str, attempt: str, row: Mapping[str, Any]) -> None:
        """Store the row of the ledger table."""
        self.add(feed, attempt, _text(row))

    def waiting(self, feed: str = "") -> list[WaitingRows]:
        """What the table lacks, of one feed or of all, in the order of feeds and attempts."""
        found, ending = [], _ENDING[self._folder]
        for info in self._store.objects(f"{self._folder}{feed}/" if feed else self._folder):
            if info.name.endswith(ending):
                owner, _, attempt = info.name.removeprefix(self._folder).removesuffix(ending).partition("/")
                found.append(WaitingRows(owner, attempt, info.created_at))
        return found

    def read_row(self, feed: str, attempt: str) -> dict[str, Any] | None:
        """The row of an attempt; None if the table has it. Raises ContractViolation if the object is damaged."""
        stored = self._store.read(self.name(feed, attempt))
        return None if stored is None else self._row(self.name(feed, attempt), stored)

    def remove(self, feed: str, attempt: str) -> None:
        """Delete what the table has by now, or never will have."""
        self._store.delete_prefix(self.name(feed, attempt))

    def forget_change_rows(self, feed: str, attempt: str) -> None:
        """Set `change_rows` to NULL in the row of an attempt."""
        name = self.name(feed, attempt)
        stored = self._store.read(name)
        if stored is not None:
            text = _text({**self._row(name, stored), "change_rows": None})
            with contextlib.suppress(LostRace):  # it was loaded meanwhile
                self._store.replace(name, text, expected_object_generation=stored.object_generation)

    def name(self, feed: str, attempt: str) -> str:
        return f"{self._folder}{feed}/{attempt}{_ENDING[self._folder]}"

    def _row(self, name: str, stored: StoredText) -> dict[str, Any]:
        row: dict[str, Any] = from_json(dict, stored.text, where=self._store.uri(name))
        return row


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
