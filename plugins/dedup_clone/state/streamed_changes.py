"""The record of the rows that an attempt of engine `cdc` streamed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class StreamedChanges:
    """The number of rows, their bytes (`size`) and the number of requests that BigQuery acknowledged.

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


class StreamedChangesFile:
    """Reads and writes the records of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def read(self, attempt: str) -> StreamedChanges | None:
        """The attempt's record; None if the attempt streamed nothing, or did not stream all rows."""
        return self._store.read_record(StreamedChanges, self._layout.streamed_changes(attempt))

    def write(self, attempt: str, changes: StreamedChanges) -> None:
        """Write or replace the attempt's record."""
        self._store.put(self._layout.streamed_changes(attempt), to_json(changes))
