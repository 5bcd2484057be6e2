"""STAGING: the object that says what the staging table contains, so that a publish knows what it must load.

And the record of what an attempt of engine `cdc` streamed into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class StagingState(StrEnum):
    """What is known about the rows of staging; `Staging` describes the states."""

    LOADING = "loading"
    LOADED = "loaded"


@dataclass(frozen=True)
class Staging:
    """The content of the staging table.

    LOADING: `attempt` is loading, and the content is unknown. LOADED: staging has exactly the rows of the manifest with
    `manifest_digest`. `is_streamed`: the attempt streams changes over its parent's rows, and in state LOADING BigQuery
    may still be applying them.
    """

    state: StagingState
    attempt: str
    generation: int
    manifest_digest: str
    is_streamed: bool = False


class StagingFile:
    """Reads and writes STAGING of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).staging

    def read(self) -> Staging | None:
        """The record; None before the first load."""
        return self._store.read_record(Staging, self._name)

    def write(self, staging: Staging) -> None:
        """Replace the record. Raises LostRace when another run replaces it at the same time."""
        stored, text = self._store.read(self._name), to_json(staging)
        if stored is None or stored.text != text:
            expected = 0 if stored is None else stored.object_generation
            self._store.replace(self._name, text, expected_object_generation=expected)


@dataclass(frozen=True)
class StreamedChanges:
    """The number of rows that an attempt streamed, their bytes (`size`), and the number of acknowledged requests.

    A task that streams all rows again replaces the record. `began_at`: when the last try of the task began.
    `acknowledged_at`: a time by BigQuery's clock after the last acknowledgement. `applied_at`: when the task saw that
    BigQuery had applied all rows; None until then. `is_overdue`: whether the task gave up waiting for that.
    `bytes_billed`: bytes billed for the metadata queries of the task.
    """

    rows: int
    size: int
    requests: int
    began_at: datetime
    acknowledged_at: datetime
    applied_at: datetime | None = None
    is_overdue: bool = False
    bytes_billed: int = 0
