"""BigQuery's quotas on changes of one table (F17), counted from the table's own versions, so a restart forgets none."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.bigquery.errors import QuotaExceeded, RateLimitExceeded
from devstack.bigquery.storage.history import TableHistory
from devstack.bigquery.storage.model import TableId

DAY_US = 86_400_000_000
RATE_WINDOW_US = 10_000_000


@dataclass(frozen=True)
class QuotaLimits:
    partition_modifications_per_day: int = 30_000
    partitions_per_job: int = 4_000
    updates_per_10_s: int = 5
    updates_per_10_s_partitioned: int = 50


def check_update_rate(
    limits: QuotaLimits, table: TableId, history: TableHistory, partitioned: bool, now_us: int
) -> None:
    allowed = limits.updates_per_10_s_partitioned if partitioned else limits.updates_per_10_s
    found = len(history.commits_since(now_us - RATE_WINDOW_US))
    if found >= allowed:
        raise RateLimitExceeded(
            f"Exceeded rate limits: too many table update operations for this table [{table}]: "
            f"[{found + 1}] in 10 seconds, allowed [{allowed}]. Wait ten seconds, then run the job again."
        )


def check_partition_modifications(
    limits: QuotaLimits, table: TableId, history: TableHistory, modified: int, now_us: int
) -> None:
    if modified > limits.partitions_per_job:
        raise QuotaExceeded(
            f"Too many partitions produced by the job for [{table}]: allowed [{limits.partitions_per_job}], "
            f"found [{modified}]. Load fewer days in one job."
        )
    today_us = now_us // DAY_US * DAY_US
    before = history.modified_partitions_since(today_us)
    if before + modified > limits.partition_modifications_per_day:
        raise QuotaExceeded(
            f"Quota exceeded: Your table exceeded quota for Number of partition modifications to a column partitioned "
            f"table [{table}]: [{before + modified}] today, allowed [{limits.partition_modifications_per_day}]. "
            "Wait for the next UTC day or load fewer partitions."
        )
