"""RETIRED: the record that a feed is out of use. While it exists, no DAG changes or checks the feed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class TargetAction(StrEnum):
    """What becomes of a retired feed's target. EXPORT writes its rows to Parquet files, then drops it."""

    KEEP = "keep"
    EXPORT = "export"
    DROP = "drop"


@dataclass(frozen=True)
class Retirement:
    """The record of one retirement.

    `attempt` is part of the name of the folder with the exported files, if files were exported. `generation`: the
    last live generation; None if nothing was published. `rows`: the number of its rows.
    """

    feed: str
    retired_at: datetime
    run_id: str
    reason: str
    target: TargetAction
    attempt: str
    generation: int | None
    rows: int


class RetiredFile:
    """Reads and writes RETIRED of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self.name = FeedLayout(feed).retired

    def read(self) -> Retirement | None:
        """The record; None while the feed is in use."""
        return self._store.read_record(Retirement, self.name)

    def write(self, record: Retirement) -> None:
        """Write the record, unless there is one."""
        self._store.create(self.name, to_json(record))
