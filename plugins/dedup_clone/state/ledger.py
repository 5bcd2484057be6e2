"""The ledger: one record for each attempt that has ended, and what the reporting tables still lack.

Records are in the folder of their feed. The watchdog looks at all feeds at once, so what the tables still lack is below
`_reporting/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout, generation_of, generation_prefix
from dedup_clone.state.store import ObjectStore

# Medians (of row shares, seconds, phases) are taken over this many of the newest publishes.
PUBLISHES_COMPARED = 20
RECENT_ATTEMPTS = 100  # the newest attempts, which the page and the checks of a publish read
LAST_ATTEMPTS = 30  # the newest attempts, which the watchdog reads while a delivery waits


class Outcome(StrEnum):
    """How an attempt ended, see `LedgerRecord.outcome`."""

    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"


class Stage(StrEnum):
    """What an attempt had reached when it ended, see `LedgerRecord.stage`."""

    DEDUP = "dedup"
    LOAD = "load"
    CHECK = "check"
    COMMIT = "commit"


@dataclass(frozen=True)
class Cost:
    """Cost of the attempt's queries, of streaming by engine `cdc`, and of Spark, as columns of the ledger table."""

    query_bytes_billed: Annotated[int, "bytes that BigQuery billed for the attempt's queries, but those of metadata"]
    query_usd: Annotated[float, "US dollars for these queries, on demand"]
    merge_usd: Annotated[
        float | None, "US dollars that one MERGE with the same result would cost; NULL if the table is empty"
    ] = None
    qualify_usd: Annotated[float | None, "US dollars that one QUALIFY would cost instead; NULL as merge_usd"] = None
    streamed_bytes: Annotated[int, "bytes of rows that engine cdc streamed, pseudocolumns included"] = 0
    stream_usd: Annotated[float, "US dollars for what engine cdc streamed, and for applying it (estimated)"] = 0.0
    spark_usd: Annotated[float | None, "US dollars for the Spark runs, failed ones too; NULL if not known"] = None

    @property
    def total_usd(self) -> float:
        return self.query_usd + self.stream_usd + (self.spark_usd or 0.0)


@dataclass(frozen=True)
class LedgerRecord:
    """One attempt. The fields are the columns of the ledger table, with these descriptions (publish/reporting.py).

    The annotations of a dictionary also name and describe its values, which are rows of a repeated column.
    """

    feed: Annotated[str, "name of the feed, and of its table"]
    kind: Annotated[Kind, "publish, rollback, bootstrap, rebuild, erase or retire"]
    outcome: Annotated[
        Outcome,
        "published; refused: every delivery was refused; failed: it ended otherwise, and committed nothing; retired: "
        "it took the feed out of use",
    ]
    stage: Annotated[
        Stage,
        "what it had reached: dedup (no generation was made), load (it had not begun), check (the load had begun) or "
        "commit",
    ]
    reason: Annotated[str, "why it failed or was refused; of a run by hand, the reason that was given"]
    snapshot_id: Annotated[
        int,
        "id of the newest snapshot in the generation, or in a failed attempt; of a table that was taken over, its "
        "highest id",
    ]
    generation: Annotated[int, "number of the generation; numbers are never reused"]
    parent: Annotated[int | None, "the generation that it builds on; NULL if there was none"]
    attempt: Annotated[str, "unique name of the attempt, and of its folder in the state bucket"]
    dag_id: Annotated[str, "the DAG of the Airflow run"]
    run_id: Annotated[str, "the Airflow run"]
    engine: Annotated[Engine, "what deduplicated: spark, bigquery (QUALIFY), merge or cdc"]
    arrived_at: Annotated[
        datetime, "when the marker of snapshot_id was written; without a delivery, when the run acquired the lease"
    ]
    deliveries: Annotated[
        tuple[Delivery, ...],
        "the deliveries that were applied whole, or that a failed publish was to apply, each as snapshot id and "
        "marker generation",
    ] = ()
    restores: Annotated[int | None, "the generation that a rollback made live again; NULL for every other attempt"] = (
        None
    )
    replay: Annotated[bool, "whether its deliveries, or the replayed dates, had been live before"] = False
    taken_over: Annotated[bool, "whether the generation has no delivery, but rows of a table that was taken over"] = (
        False
    )
    swapped_at: Annotated[
        datetime | None, "when readers began to see it; NULL if they never did; of a retirement: its time"
    ] = None
    lag_s: Annotated[
        float | None,
        "seconds from the arrival of the newest of deliveries that was never live before to the swap; else NULL",
    ] = None
    plans: Annotated[tuple[str, ...], "how dates were written"] = ()
    rows: Annotated[int, "rows of the table"] = 0
    new_rows: Annotated[int, "rows whose key the parent lacks"] = 0
    changed_rows: Annotated[
        int | None, "rows with other values than the parent's; NULL if values were not compared"
    ] = None
    kept_rows: Annotated[int, "rows retained although the newest snapshot lacks their key"] = 0
    dropped_rows: Annotated[int, "rows of the deliveries and of the parent that were older than the retention"] = 0
    change_rows: Annotated[
        int | None, "rows of the generation in FEED_changes; NULL if that table cannot tell what it changed"
    ] = None
    ties: Annotated[int, "surplus rows of duplicate keys within single deliveries"] = 0
    cluster_overlap: Annotated[
        float | None, "share by which files overlap in the first clustering column; NULL without clustering"
    ] = None
    loads: Annotated[int, "load jobs of the whole table, failed ones too; all loads of single dates count as one"] = 1
    shares: Annotated[
        dict[str, float],
        "new, missing and changed rows as fractions of the rows on dates that both parent and delivery have",
        ("share", "fraction of the rows, 0 to 1"),
    ] = field(default_factory=dict)
    phases: Annotated[
        dict[str, float],
        "seconds of each phase (docs/costs-and-limits.md), in the order in which they happen; of a publish with a "
        "lag, they add up to it",
        ("seconds", "how long it took"),
    ] = field(default_factory=dict)
    cost: Cost | None = None

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
        self.add(feed, attempt, json.dumps(row, ensure_ascii=False))

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
        return self._store.read_record(dict, self.name(feed, attempt))

    def remove(self, feed: str, attempt: str) -> None:
        """Delete what the table has by now, or never will have."""
        self._store.delete_prefix(self.name(feed, attempt))

    def forget_change_rows(self, feed: str, attempt: str) -> None:
        """Set `change_rows` to NULL in the row of an attempt."""
        self._store.change_record(dict, self.name(feed, attempt), lambda row: row and {**row, "change_rows": None})

    def name(self, feed: str, attempt: str) -> str:
        return f"{self._folder}{feed}/{attempt}{_ENDING[self._folder]}"
