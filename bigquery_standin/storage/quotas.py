"""Enforces BigQuery's quotas on changes of a table, by counting changes in the table's stored versions.

`kind` is the kind of a change, such as `load` (`TableVersion.change_kind`); `modified` is how many partitions it
modifies.
"""

from __future__ import annotations

from dataclasses import dataclass

from bigquery_standin.bigquery_errors import StandInError
from bigquery_standin.clock import DAY_US
from bigquery_standin.storage.model import TableId
from bigquery_standin.storage.table_history import Change, TableHistory

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


def check_quotas(limits: QuotaLimits, table: TableId, history: TableHistory, change: Change, now_us: int) -> None:
    """Raises StandInError if the table was changed too often, or if the change modifies too many partitions.

    DML statements have a limit of their own in 10 seconds. They are not refused by that for other updates, but count
    against it. Source: "Quotas and limits" of BigQuery.
    """
    if change.kind in _BY_STREAMING:
        return
    is_partitioned = change.settings.partition_column is not None
    kinds = [version.change_kind for version in history.summaries_since(now_us - RATE_WINDOW_US)]
    recent = [kind for kind in kinds if kind not in _BY_STREAMING]
    what, allowed = "table update operations", limits.updates_per_10_s
    if change.kind in _DML:
        what, allowed, recent = "DML statements", limits.dml_per_10_s, [kind for kind in recent if kind in _DML]
    elif is_partitioned:
        allowed = limits.updates_per_10_s_partitioned
    if len(recent) >= allowed:
        raise StandInError(
            f"Exceeded rate limits: too many {what} for this table [{table}]: [{len(recent) + 1}] in 10 seconds, "
            f"allowed [{allowed}]. Wait ten seconds, then run the job again.",
            "rateLimitExceeded",
        )
    if is_partitioned:
        _check_partition_modifications(limits, table, history, change, now_us)
    elif change.kind in _TABLE_MODIFICATIONS:
        kinds = [version.change_kind for version in history.summaries_since(now_us - DAY_US)]
        _check_daily(
            "imports or query appends per table", table, sum(kind in _TABLE_MODIFICATIONS for kind in kinds), 1,
            limits.table_modifications_per_day,
        )  # fmt: skip


def _check_partition_modifications(
    limits: QuotaLimits, table: TableId, history: TableHistory, change: Change, now_us: int
) -> None:
    if change.modified_partitions > limits.partitions_per_job:
        raise StandInError(
            f"Too many partitions produced by the job for [{table}]: allowed [{limits.partitions_per_job}], "
            f"found [{change.modified_partitions}]. Load fewer days in one job.",
            "quotaExceeded",
        )
    counted = counted_modifications(change.kind, change.modified_partitions)
    before = sum(version.modified_partitions for version in history.summaries_since(now_us - DAY_US))
    _check_daily(
        "Number of partition modifications to a column partitioned table", table, before, counted,
        limits.partition_modifications_per_day,
    )  # fmt: skip


def _check_daily(quota: str, table: TableId, before: int, counted: int, allowed: int) -> None:
    if counted and before + counted > allowed:
        raise StandInError(
            f"Quota exceeded: Your table exceeded quota for {quota} [{table}]: [{before + counted}] in 24 hours, "
            f"allowed [{allowed}]. Wait until earlier modifications are older than 24 hours, or load fewer partitions.",
            "quotaExceeded",
        )
