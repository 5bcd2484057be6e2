"""Builds the JSON values that the page shows of a feed, from the feed's records.

Snapshot ids and object generations are strings, because JavaScript's numbers are exact only up to 2**53.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import ACCEPTABLE_CHECKS, may_be_accepted
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.verdict import ExpectedTimeState, FeedFile, FreshnessVerdict, status_and_headline
from dedup_clone.page.feed_reader import DeliveryState, FeedRecords
from dedup_clone.publish.held_deliveries import StoppedPublish
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX
from dedup_clone.state.audits import Audits
from dedup_clone.state.ledger import LedgerRecord, Outcome

# Time travel must still reach the generation at the swap, after the approval. So the page offers time travel only until
# this long before its window ends.
APPROVAL_MARGIN = timedelta(hours=1)


def feed_summary(verdict: FreshnessVerdict, now: datetime) -> dict[str, Any]:
    """The feed's entry in the list of all feeds, as the feed's own page shows it."""
    status, headline = status_and_headline(verdict, now)
    return {"feed": verdict.feed, "status": str(status), "headline": headline, "waiting": verdict.waiting}


def page_view(records: FeedRecords, now: datetime) -> dict[str, Any]:
    """Everything that the page shows of one feed at `now` (UTC).

    Freshness, and the run that holds the lease; the rest only if the verdict says what the feed's file holds.
    """
    verdict = records.verdict
    view = {
        "now": now.isoformat(),
        "feed": verdict.feed,
        "freshness": _freshness(verdict, now),
        "has_history": verdict.feed_file is not None,
        "running": _running(records),
    }
    return view if verdict.feed_file is None else view | _history_view(records, verdict.feed_file, now)


def _freshness(verdict: FreshnessVerdict, now: datetime) -> dict[str, Any]:
    """The verdict as of `now`. `waiting`: None if the verdict is stale. `next_step`: of the first incident."""
    status, headline = status_and_headline(verdict, now)
    to_come = (one.at for one in verdict.expected if one.at > now and one.state is not ExpectedTimeState.MET)
    expected = next(to_come, None)
    return {
        "status": str(status),
        "headline": headline,
        "readers_see": verdict.readers_see,
        "next_step": verdict.incidents[0].next_step if verdict.incidents else "",
        "incidents": [{"name": one.name, **to_plain(one)} for one in verdict.incidents],
        "waiting": None if verdict.is_stale(now) else verdict.waiting,
        "check_age_s": (now - verdict.checked_at).total_seconds(),
        "next_expected_at": to_plain(expected),
        "runbook": verdict.runbook,
    }


def _running(records: FeedRecords) -> dict[str, Any] | None:
    """The run that holds the lease, and how far its dedup job is; None without such a run.

    `progress`: of the job; None if it is not known.
    """
    intent = records.intent
    if intent is None:
        return None
    return {**to_plain(intent), "progress": to_plain(records.progress)}


def _history_view(records: FeedRecords, file: FeedFile, now: datetime) -> dict[str, Any]:
    """What the page shows of a feed's file and of what happened."""
    live, verdict = records.live, records.verdict
    publishes = [_publish(record) | _restorable(records, record, now) for record in records.published]
    shown = next((p for p in reversed(publishes) if live and p["generation"] == live.generation), None)
    return {
        **to_plain(file),
        "live": shown,
        "zone": verdict.zone,
        "expected": to_plain(verdict.expected),
        "deliveries": [{**to_plain(listed), **_ids(listed.delivery)} for listed in records.deliveries],
        "stopped": _stopped_publish(records),
        "held": [_stopped(records, held.delivery, held.stopped) for held in reversed(verdict.held)],
        "publishes": publishes,
        "dates": _dates(live, now),
        "audit": _audit(records.audits, live),
        "checks": [_checks(records, record) for record in records.attempts if record.attempt in records.results],
        "acceptable_checks": [*ACCEPTABLE_CHECKS, *_sql_checks(records)],
    }


def _ids(delivery: Delivery) -> dict[str, str]:
    return {"snapshot_id": str(delivery.snapshot_id), "marker_generation": str(delivery.marker_generation)}


def _stopped_publish(records: FeedRecords) -> dict[str, Any] | None:
    """The newest waiting delivery, if checks stopped its publish; None while a run may publish it."""
    stopped = records.verdict.stopped
    waiting = [d.delivery for d in records.deliveries if d.state is DeliveryState.WAITING]
    delivery = max(waiting, default=None)
    if stopped is None or records.intent is not None or delivery not in stopped.deliveries:
        return None
    return _stopped(records, delivery, stopped)


def _stopped(records: FeedRecords, delivery: Delivery, stopped: StoppedPublish) -> dict[str, Any]:
    """A delivery, and the checks that stopped it before its swap, with examples if their results are still there."""
    results = [result for result in _results(records, stopped.attempt) if result["phase"] == "before"]
    examples = {result["check"]: result["examples"] for result in results}
    return {
        **_ids(delivery),
        "dag_id": stopped.dag_id,
        "run_id": stopped.run_id,
        "failed": [{**to_plain(result), "examples": examples.get(result.check, [])} for result in stopped.failed],
        "acceptable": all(may_be_accepted(result.check) for result in stopped.failed),
        "is_before_dedup": not stopped.attempt,
    }


PUBLISH_FIELDS = (
    "generation", "restores", "dag_id", "run_id", "engine", "plans", "reason", "arrived_at", "swapped_at",
    "lag_s", "rows", "new_rows", "changed_rows", "dropped_rows", "cluster_overlap", "phases",
)  # fmt: skip


def _publish(record: LedgerRecord) -> dict[str, Any]:
    plain, cost = to_plain(record), record.cost
    return {
        **{name: plain[name] for name in PUBLISH_FIELDS},
        "kind": "replay" if record.replay else str(record.kind),
        "snapshot_id": str(record.snapshot_id),
        "runs_spark": record.engine.runs_spark and record.restores is None,
        "retained_rows": record.kept_rows,
        "usd": cost.total_usd if cost else None,
        "spark_usd": cost.spark_usd if cost else None,
        "merge_usd": cost.merge_usd if cost else None,
        "qualify_usd": cost.qualify_usd if cost else None,
    }


def _restorable(records: FeedRecords, record: LedgerRecord, now: datetime) -> dict[str, Any]:
    """What a rollback restores the generation from, as far as records tell; the rollback itself verifies this.

    `restorable`: `time travel` or `files`; None if from neither. `until`: until when time travel reaches it. It does
    not reach back beyond the creation of staging.
    """
    file, until = records.verdict.feed_file, None
    if record.generation < records.oldest_restorable:
        return {"restorable": None, "until": None}
    if file and file.staging_created_at and record.swapped_at and record.swapped_at > file.staging_created_at:
        until = record.swapped_at + timedelta(hours=file.time_travel_hours) - APPROVAL_MARGIN
    if until is not None and now < until:
        return {"restorable": "time travel", "until": until.isoformat()}
    # Prune retains the files of the live generation and its parent.
    live = records.live
    has_files = live and live.data_folder is not None and record.generation in (live.generation, live.parent)
    return {"restorable": "files" if has_files else None, "until": None}


def _dates(live: Manifest | None, now: datetime) -> list[list[Any]]:
    """For each date: it, rows, survivors, and UTC days until its partition expires, negative if it is overdue."""
    if live is None:
        return []
    expired = now.astimezone(UTC).date() - timedelta(days=live.table.retention_days)
    start = live.table.partition_start
    return [
        [entry.date.isoformat(), entry.rows, entry.survivors, (start(entry.date) - expired).days]
        for entry in live.dates_with_rows
    ]


def _audit(audits: Audits | None, live: Manifest | None) -> dict[str, Any] | None:
    """The last comparison of a partition of the table, and the dates whose partitions differ from the published files.

    None if no partition was compared.
    """
    of_table = audits.of_table(live) if audits else None
    if of_table is None or of_table.last is None:
        return None
    return {**to_plain(of_table.last), "unequal_dates": [record.date.isoformat() for record in of_table.unequal]}


def _checks(records: FeedRecords, record: LedgerRecord) -> dict[str, Any]:
    """The results of an attempt's checks."""
    return {
        "generation": record.generation,
        "snapshot_id": str(record.snapshot_id),
        "verdicts": _results(records, record.attempt),
        "published": record.outcome is Outcome.PUBLISHED,
    }


def _results(records: FeedRecords, attempt: str) -> list[dict[str, Any]]:
    """The results of an attempt's checks, each with its phase: `before` or `after` the swap."""
    phases = records.results.get(attempt, ())
    return [{"phase": phase.phase, **to_plain(result)} for phase in phases for result in phase.items]


def _sql_checks(records: FeedRecords) -> list[str]:
    """The names of the feed's own SQL checks that occur in stored results."""
    found = {result.check for phases in records.results.values() for phase in phases for result in phase.items}
    return sorted(name for name in found if name.startswith(SQL_CHECK_PREFIX))
