"""The record of the rows that an attempt of engine `cdc` streamed; absent until it streamed all rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
