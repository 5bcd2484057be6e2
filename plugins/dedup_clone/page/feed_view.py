"""Builds the JSON values that the page shows of a feed, from the feed's records.

Snapshot ids and object generations are strings, because JavaScript's numbers are exact only up to 2**53.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import ACCEPTABLE_CHECKS, CheckResult, CheckResults, may_be_accepted
from dedup_clone.contract.attempt import REPLAY_PLANS
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.verdict import FreshnessVerdict, status_and_headline
from dedup_clone.page.feed_history import DeliveryState, FeedHistory, ListedArrival
from dedup_clone.page.feed_reader import FeedRecords
from dedup_clone.page.freshness_view import arrival_view, status_view, today_view
from dedup_clone.page.generations_view import generations_view
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX
from dedup_clone.state.audits import Audits
from dedup_clone.state.ledger import LedgerRecord, Outcome, count_loads


def publish_dag(feed: str) -> str:
    return f"{feed}_publish"


def rollback_dag(feed: str) -> str:
    return f"{feed}_rollback"


def feed_summary(summary: FreshnessVerdict, now: datetime) -> dict[str, Any]:
    """The feed's entry in the list of all feeds: of the last verdict, as the feed's own page shows it."""
    status, headline = status_and_headline(summary, now)
    return {"feed": summary.feed, "status": str(status), "headline": headline, "waiting": summary.waiting}


def page_view(records: FeedRecords, now: datetime) -> dict[str, Any]:
    """Everything that the page shows of one feed at `now` (UTC).

    Without a history: freshness, and the run that holds the lease.
    """
    view = {
        "now": now.isoformat(),
        "feed": records.verdict.feed,
        "freshness": status_view(records.verdict, now),
        "has_history": records.history is not None,
        "running": _running(records),
    }
    if records.history is not None:
        view |= _history_view(records.verdict, records.history, now)
    if records.intent is not None:
        # A delivery that a check stopped is not shown as such then: the run may publish it, or waits for an approval.
        view["stopped"] = None
    return view


def _running(records: FeedRecords) -> dict[str, Any] | None:
    """The run that holds the lease, and how far its dedup job is; None without such a run, or if it waits for approval.

    `dates`: the job's progress; None if it is not known, or once the load has begun.
    """
    intent = records.intent
    if intent is None or intent.waits_for_approval:
        return None
    return {
        "dag_id": intent.dag_id,
        "run_id": intent.run_id,
        "kind": str(intent.kind),
        "generation": intent.generation,
        "taken_at": intent.taken_at.isoformat(),
        "dates": None if count_loads(intent.jobs) else to_plain(records.progress),
    }


def _history_view(verdict: FreshnessVerdict, history: FeedHistory, now: datetime) -> dict[str, Any]:
    """What the page shows of a feed's file and of what happened."""
    file, live, arrivals = history.feed_file, history.live, history.arrivals
    waits = [arrival.delivery for arrival in history.waiting]
    unregistered = 0 if verdict.is_stale(now) else max(0, verdict.waiting - len(waits))
    return {
        "description": file.description,
        "owner": file.owner,
        "target": file.target,
        "engine": str(file.engine),
        "landing": {"folder": file.landing_folder, "files": file.landing_files, "marker": file.marker},
        "sla_minutes": file.sla_minutes,
        "retention_days": live.table.retention_days if live else file.retention_days,
        "live": _live(history, now),
        "today": today_view(verdict, arrivals, now, unregistered),
        "waiting": [arrival_view(a) for a in history.waiting],
        "stopped": _stopped(max(waits), history.stopped) if waits and history.stopped else None,
        "held": [_stopped(held.delivery, held) for held in reversed(history.held)],
        "publishes": [_publish(r) for r in history.published],
        "failures": [_failure(r) for r in history.failures],
        "dates": _dates(live, now),
        "audit": _audit(history.audits),
        "checks": [_checks(r, history.results[r.attempt]) for r in history.attempts if history.results.get(r.attempt)],
        "costs": _costs(history.published, history.failures),
        "generations": generations_view(history, now),
        "excluded": [d.name for d in live.excluded] if live else [],
        "refused": [
            {**arrival_view(a), "corrected_by": _corrected_by(arrivals, a)}
            for a in reversed(arrivals)
            if a.state is DeliveryState.REFUSED
        ],
        "replayable": [arrival_view(a) for a in reversed(arrivals)],
        "choices": {
            "engines": [str(engine) for engine in Engine],
            "plans": [str(plan) for plan in REPLAY_PLANS],
            "acceptable_checks": [*ACCEPTABLE_CHECKS, *_sql_checks(history)],
            "publish_dag": publish_dag(verdict.feed),
            "rollback_dag": rollback_dag(verdict.feed),
        },
    }


def _corrected_by(arrivals: Iterable[ListedArrival], refused: ListedArrival) -> str | None:
    """The name of the newest later delivery of the same snapshot that was published; None if there is none."""
    snapshot_id = refused.delivery.snapshot_id
    published = [a.delivery for a in arrivals if a.state is DeliveryState.PUBLISHED]
    later = [d for d in published if d.snapshot_id == snapshot_id and d > refused.delivery]
    return max(later).name if later else None


def _stopped(delivery: Delivery, stopped: StoppedPublish | HeldDelivery) -> dict[str, Any]:
    """A delivery, and the checks that stopped it before its swap."""
    return {
        "snapshot_id": str(delivery.snapshot_id),
        "marker_generation": str(delivery.marker_generation),
        "dag_id": stopped.dag_id,
        "run_id": stopped.run_id,
        "failed": [_result("before", result) for result in stopped.failed],
        "acceptable": all(may_be_accepted(result.check) for result in stopped.failed),
        "is_before_dedup": isinstance(stopped, StoppedPublish) and stopped.is_before_dedup,
    }


def _result(phase: str, result: CheckResult) -> dict[str, Any]:
    """The result of one check, `before` or `after` the swap (`phase`)."""
    return {"phase": phase, **to_plain(result)}


def _live(history: FeedHistory, now: datetime) -> dict[str, Any] | None:
    """The publish of the live generation, and seconds since its arrival; None if its record is gone."""
    generation = history.live.generation if history.live else None
    record = next((r for r in reversed(history.published) if r.generation == generation), None)
    if record is None:
        return None
    return {**_publish(record), "age_s": (now - record.arrived_at).total_seconds()}


PUBLISH_FIELDS = (
    "generation", "parent", "restores", "dag_id", "run_id", "engine", "plans", "reason", "arrived_at", "swapped_at",
    "lag_s", "rows", "new_rows", "changed_rows", "dropped_rows", "cluster_overlap", "phases",
)  # fmt: skip
FAILURE_FIELDS = ("generation", "outcome", "reason", "arrived_at", "dag_id", "run_id")


def _publish(record: LedgerRecord) -> dict[str, Any]:
    plain, cost = to_plain(record), record.cost
    return {
        **{name: plain[name] for name in PUBLISH_FIELDS},
        "kind": "replay" if record.replay else str(record.kind),
        "snapshot_id": str(record.snapshot_id),
        "deliveries": [d.name for d in record.deliveries],
        "runs_spark": _runs_spark(record),
        "lag_of": _lag_of(record),
        "retained_rows": record.kept_rows,
        "usd": cost.total_usd if cost else None,
        "spark_usd": cost.spark_usd if cost else None,
        "merge_usd": cost.merge_usd if cost else None,
        "qualify_usd": cost.qualify_usd if cost else None,
    }


def _failure(record: LedgerRecord) -> dict[str, Any]:
    plain = to_plain(record)
    return {**{name: plain[name] for name in FAILURE_FIELDS}, "snapshot_id": str(record.snapshot_id)}


def _lag_of(record: LedgerRecord) -> dict[str, str] | None:
    """The delivery from whose arrival the lag counts; after a late snapshot it is not the newest one. None without."""
    if record.lag_s is None or record.swapped_at is None or not record.deliveries:
        return None
    arrived_at = record.swapped_at - timedelta(seconds=record.lag_s)
    return {"snapshot_id": str(record.deliveries[-1].snapshot_id), "arrived_at": arrived_at.isoformat()}


def _runs_spark(record: LedgerRecord) -> bool:
    return record.engine.runs_spark and record.restores is None


def _dates(live: Manifest | None, now: datetime) -> list[list[Any]]:
    """For each partition: date, rows, survivors, and UTC days until it expires, negative if it is overdue."""
    if live is None:
        return []
    day, days = now.astimezone(UTC).date(), live.table.retention_days
    return [
        [entry.date.isoformat(), entry.rows, entry.survivors, (entry.date - day).days + days] for entry in live.dates
    ]


def _audit(audits: Audits | None) -> dict[str, Any] | None:
    """The last comparison of a partition, and the dates whose partitions differ from the published files."""
    last = audits.last if audits else None
    if audits is None or last is None:
        return None
    return {**to_plain(last), "unequal_dates": [record.date.isoformat() for record in audits.unequal]}


def _checks(record: LedgerRecord, results: Iterable[CheckResults]) -> dict[str, Any]:
    """The results of an attempt's checks."""
    return {
        "attempt": record.attempt,
        "generation": record.generation,
        "snapshot_id": str(record.snapshot_id),
        "verdicts": [_result(phase.phase, result) for phase in results for result in phase.items],
        "published": record.outcome is Outcome.PUBLISHED,
    }


def _sql_checks(history: FeedHistory) -> list[str]:
    """The names of the feed's own SQL checks that occur in stored results."""
    names = {result.check for results in history.results.values() for phase in results for result in phase.items}
    return sorted(name for name in names if name.startswith(SQL_CHECK_PREFIX))


def _costs(records: list[LedgerRecord], failures: list[LedgerRecord]) -> dict[str, Any]:
    """Summed costs of the publishes and replays for which the cost of a MERGE is known (state/ledger.py, `Cost`).

    `usd` includes `failed_usd`, that of the attempts after the first of them that published nothing.
    """
    compared = [(r, r.cost) for r in records if r.cost is not None and r.cost.merge_usd is not None]
    costs = [cost for _, cost in compared]
    failed = [f.cost.total_usd for f in failures if f.cost and compared and f.generation > compared[0][0].generation]
    unknown = any(_runs_spark(r) and cost.spark_usd is None for r, cost in compared)
    return {
        "runs_spark": any(_runs_spark(r) for r, _ in compared),
        "spark_usd": None if unknown else sum(c.spark_usd or 0 for c in costs),
        "publishes": len(costs),
        "usd": sum(c.total_usd for c in costs) + sum(failed),
        "failed_usd": sum(failed),
        "merge_usd": sum(c.merge_usd or 0 for c in costs),
        "qualify_usd": sum(c.qualify_usd or 0 for c in costs),
    }
