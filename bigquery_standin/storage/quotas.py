"""Enforces BigQuery's quotas on changes of a table, by counting changes in the table's stored versions.

`kind` is the kind of a change, such as `load` (`TableVersion.change_kind`); `modified` is how many partitions it
modifies.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigquery_standin.bigquery_errors import QuotaExceeded, RateLimitExceeded
from bigquery_standin.clock import DAY_US
from bigquery_standin.storage.model import TableId
from bigquery_standin.storage.table_history import TableHistory

RATE_WINDOW_US = 10_000_000
# Kinds of changes that count against the daily quota of an unpartitioned table. BigQuery counts a clone as a copy job,
# which this quota includes.
_TABLE_MODIFICATIONS = frozenset({"clone", "load", "query"})
_DML = frozenset({"insert", "update", "delete", "merge", "truncate"})
# Kinds of changes by streaming, to which the limits of updates do not apply: rows or row changes are streamed, rows
# leave the streaming buffer, row changes are applied to the rows.
STREAMED, FLUSHED, APPLIED = "stream", "flush", "apply"
_BY_STREAMING = frozenset({STREAMED, FLUSHED, APPLIED})


@dataclass(frozen=True)
class QuotaLimits:
    """The limits that the stand-in enforces for each table. By default they are BigQuery's.

    `updates_per_10_s`, `table_modifications_per_day`: of an unpartitioned table. `partitions_per_job`: how many
    partitions one job may modify. `dml_per_10_s`: of DML statements, whether the table is partitioned or not.
    """

    partition_modifications_per_day: int = 30_000
    partitions_per_job: int = 4_000
    updates_per_10_s: int = 5
    updates_per_10_s_partitioned: int = 50
    dml_per_10_s: int = 25
    table_modifications_per_day: int = 1_500


def counted_modifications(kind: str, modified: int) -> int:
    """How many of a change's modified partitions count against the daily quota: none for DML and streaming."""
    return 0 if kind in _DML | _BY_STREAMING else modified


def check_update_rate(
    limits: QuotaLimits, table: TableId, history: TableHistory, kind: str, partitioned: bool, now_us: int
) -> None:
    """Raises RateLimitExceeded if the table was updated too often.

    DML statements have a limit of their own. They are not refused by the limit for other updates, but count against it.
    """
    if kind in _BY_STREAMING:
        return
    recent_kinds = [version.change_kind for version in history.summaries_since(now_us - RATE_WINDOW_US)]
    if kind in _DML:
        recent = sum(recent_kind in _DML for recent_kind in recent_kinds)
        if recent >= limits.dml_per_10_s:
            raise RateLimitExceeded(
                f"Exceeded rate limits: too many DML statements for this table [{table}]: "
                f"[{recent + 1}] DML statements in 10 seconds, allowed [{limits.dml_per_10_s}]. "
                "Wait ten seconds, then run the job again."
            )
        return
    allowed = limits.updates_per_10_s_partitioned if partitioned else limits.updates_per_10_s
    recent = sum(recent_kind not in _BY_STREAMING for recent_kind in recent_kinds)
    if recent >= allowed:
        raise RateLimitExceeded(
            f"Exceeded rate limits: too many table update operations for this table [{table}]: "
            f"[{recent + 1}] in 10 seconds, allowed [{allowed}]. Wait ten seconds, then run the job again."
        )


def check_table_modifications(
    limits: QuotaLimits, table: TableId, history: TableHistory, kind: str, now_us: int
) -> None:
    """Raises QuotaExceeded if an unpartitioned table was changed too often. Source: "Quotas and limits" of BigQuery."""
    if kind not in _TABLE_MODIFICATIONS:
        return
    before = sum(version.change_kind in _TABLE_MODIFICATIONS for version in history.summaries_since(now_us - DAY_US))
    if before >= limits.table_modifications_per_day:
        raise QuotaExceeded(
            f"Quota exceeded: Your table exceeded quota for imports or query appends per table [{table}]: "
            f"[{before + 1}] in 24 hours, allowed [{limits.table_modifications_per_day}]."
        )


def check_partition_modifications(
    limits: QuotaLimits, table: TableId, history: TableHistory, kind: str, modified: int, now_us: int
) -> None:
    """Raises QuotaExceeded if a change modifies too many partitions, alone or with those of the last 24 hours."""
    if modified > limits.partitions_per_job:
        raise QuotaExceeded(
            f"Too many partitions produced by the job for [{table}]: allowed [{limits.partitions_per_job}], "
            f"found [{modified}]. Load fewer days in one job."
        )
    counted = counted_modifications(kind, modified)
    before = sum(version.modified_partitions for version in history.summaries_since(now_us - DAY_US))
    if counted and before + counted > limits.partition_modifications_per_day:
        raise QuotaExceeded(
            f"Quota exceeded: Your table exceeded quota for Number of partition modifications to a column partitioned "
            f"table [{table}]: [{before + counted}] in 24 hours, allowed [{limits.partition_modifications_per_day}]. "
            "Wait until earlier modifications are older than 24 hours, or load fewer partitions."
        )
