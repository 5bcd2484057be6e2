"""Builds the JSON values that the page shows of a feed, from the feed's index and freshness verdict.

Snapshot ids and object generations are strings, because JavaScript's numbers are exact only up to 2**53.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import ACCEPTABLE_CHECKS, may_be_accepted
from dedup_clone.contract.attempt import REPLAY_PLANS
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.verdict import FreshnessVerdict, status_and_headline
from dedup_clone.page.feed_reader import FeedOverview, FeedRecords
from dedup_clone.page.freshness_view import arrival_view, status_view, today_view
from dedup_clone.page.restore_options import generation_view
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX
from dedup_clone.state.index import DeliveryState, Index, IndexArrival, IndexChecks, IndexStopped
from dedup_clone.state.ledger import LedgerRecord, count_loads

PUBLISHES_SHOWN = 100


def publish_dag(feed: str) -> str:
    return f"{feed}_publish"


def rollback_dag(feed: str) -> str:
    return f"{feed}_rollback"


def feed_summary(overview: FeedOverview, now: datetime) -> dict[str, Any]:
    """The feed's entry in the list of all feeds: of the last verdict, as the feed's own page shows it."""
    status, headline = status_and_headline(overview.summary, now)
    return {
        "feed": overview.feed,
        "status": str(status),
        "headline": headline,
        "waiting": overview.waiting,
    }


def page_view(records: FeedRecords, now: datetime) -> dict[str, Any]:
    """Everything that the page shows of one feed at `now` (UTC).

    Without an index: freshness, and the run that holds the lease.
    """
    if records.index is not None:
        view = index_view(records.index, records.verdict, now)
    else:
        view = {"now": now.isoformat(), "feed": records.feed, "freshness": status_view(records.verdict, now)}
    running = _running(records)
    if records.intent is not None and view.get("stopped") is not None:
        # A delivery that a check stopped is not shown as such then: the run may publish it, or waits for an approval.
        view["stopped"] = None
    return {**view, "has_index": records.index is not None, "running": running}


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


def index_view(index: Index, verdict: FreshnessVerdict | None, now: datetime) -> dict[str, Any]:
    """What the page shows at `now` (UTC) of a feed that has an index."""
    shown, waiting = index.records[-PUBLISHES_SHOWN:], _waiting(index)
    freshness = status_view(verdict, now)
    return {
        "now": now.isoformat(),
        "feed": index.feed,
        "freshness": freshness,
        "description": index.description,
        "owner": index.owner,
        "target": index.target,
        "engine": str(index.engine),
        "landing": to_plain(index.landing),
        "sla_minutes": index.sla_minutes,
        "retention_days": index.retention_days,
        "live": _live(index, now),
        "today": today_view(verdict, index.arrivals, now, max(0, (freshness["waiting"] or 0) - len(waiting))),
        "waiting": [arrival_view(a) for a in waiting],
        "stopped": None if index.stopped is None else _stopped(index.stopped),
        "held": [_stopped(held) for held in reversed(index.held)],
        "publishes": [_publish(r) for r in shown],
        "failures": [_failure(r) for r in index.failures],
        "dates": _dates(index, now),
        "audit": to_plain(index.audit),
        "checks": [_checks(index, attempt) for attempt in index.checks],
        "costs": _costs(shown, index.failures),
        "generations": [generation_view(index, g, now) for g in reversed(index.generations)],
        "excluded": [d.name for d in index.excluded],
        "refused": [
            {**arrival_view(a), "corrected_by": _corrected_by(index, a)}
            for a in reversed(index.arrivals)
            if a.state is DeliveryState.REFUSED
        ],
        "replayable": [arrival_view(a) for a in reversed(index.arrivals)],
        "choices": {
            "engines": [str(engine) for engine in Engine],
            "plans": [str(plan) for plan in REPLAY_PLANS],
            "acceptable_checks": [*ACCEPTABLE_CHECKS, *_sql_checks(index)],
            "publish_dag": publish_dag(index.feed),
            "rollback_dag": rollback_dag(index.feed),
        },
    }


def _waiting(index: Index) -> list[IndexArrival]:
    """Deliveries that wait to be published, oldest first."""
    return [a for a in index.arrivals if a.state is DeliveryState.WAITING]


def _corrected_by(index: Index, refused: IndexArrival) -> str | None:
    """The name of the newest later delivery of the same snapshot that was published; None if there is none."""
    snapshot_id = refused.delivery.snapshot_id
    published = [a.delivery for a in index.arrivals if a.state is DeliveryState.PUBLISHED]
    later = [d for d in published if d.snapshot_id == snapshot_id and d > refused.delivery]
    return max(later).name if later else None


def _stopped(stopped: IndexStopped) -> dict[str, Any]:
    """A delivery, and the checks that stopped it before its swap."""
    return {
        "snapshot_id": str(stopped.delivery.snapshot_id),
        "marker_generation": str(stopped.delivery.marker_generation),
        "dag_id": stopped.dag_id,
        "run_id": stopped.run_id,
        "failed": [to_plain(v) for v in stopped.verdicts],
        "acceptable": all(may_be_accepted(v.check) for v in stopped.verdicts),
        "is_before_dedup": stopped.is_before_dedup,
    }


def _live(index: Index, now: datetime) -> dict[str, Any] | None:
    """The publish of the live generation, and seconds since its arrival; None if the index has no record of it."""
    record = next((r for r in reversed(index.records) if r.generation == index.generation), None)
    if record is None:
        return None
    return {**_publish(record), "age_s": (now - record.arrived_at).total_seconds()}


def _publish(record: LedgerRecord) -> dict[str, Any]:
    cost = record.cost
    return {
        "kind": "replay" if record.is_replay else str(record.kind),
        "generation": record.generation,
        "parent": record.parent,
        "restores": record.restores,
        "snapshot_id": str(record.snapshot_id),
        "deliveries": [d.name for d in record.deliveries],
        "dag_id": record.dag_id,
        "run_id": record.run_id,
        "engine": str(record.engine),
        "runs_spark": _runs_spark(record),
        "plans": list(record.plans),
        "reason": record.reason,
        "arrived_at": record.arrived_at.isoformat(),
        "swapped_at": to_plain(record.swapped_at),
        "lag_s": record.lag_s,
        "lag_of": _lag_of(record),
        "rows": record.rows,
        "new_rows": record.new_rows,
        "changed_rows": record.changed_rows,
        "retained_rows": record.kept_rows,
        "dropped_rows": record.dropped_rows,
        "cluster_overlap": record.cluster_overlap,
        "phases": record.phases,
        "usd": cost.total_usd if cost else None,
        "spark_usd": cost.spark_usd if cost else None,
        "merge_usd": cost.merge_usd if cost else None,
        "qualify_usd": cost.qualify_usd if cost else None,
    }


def _lag_of(record: LedgerRecord) -> dict[str, str] | None:
    """The delivery from whose arrival the lag counts; after a late snapshot it is not the newest one. None without."""
    if record.lag_s is None or record.swapped_at is None or not record.deliveries:
        return None
    arrived_at = record.swapped_at - timedelta(seconds=record.lag_s)
    return {"snapshot_id": str(record.deliveries[-1].snapshot_id), "arrived_at": arrived_at.isoformat()}


def _runs_spark(record: LedgerRecord) -> bool:
    return record.engine.runs_spark and record.restores is None


def _failure(record: LedgerRecord) -> dict[str, Any]:
    return {
        "generation": record.generation,
        "snapshot_id": str(record.snapshot_id),
        "outcome": str(record.outcome),
        "reason": record.reason,
        "arrived_at": record.arrived_at.isoformat(),
        "dag_id": record.dag_id,
        "run_id": record.run_id,
    }


def _dates(index: Index, now: datetime) -> list[list[Any]]:
    """For each partition: date, rows, survivors, and UTC days until it expires, negative if it is overdue."""
    day = now.astimezone(UTC).date()
    return [[e.date.isoformat(), e.rows, e.survivors, (e.date - day).days + index.retention_days] for e in index.dates]


def _checks(index: Index, checks: IndexChecks) -> dict[str, Any]:
    published = any(r.attempt == checks.attempt for r in index.records)
    return {**to_plain(checks), "snapshot_id": str(checks.snapshot_id), "published": published}


def _sql_checks(index: Index) -> list[str]:
    """The names of the feed's own SQL checks that occur in stored results."""
    return sorted({v.check for checks in index.checks for v in checks.verdicts if v.check.startswith(SQL_CHECK_PREFIX)})


def _costs(records: tuple[LedgerRecord, ...], failures: tuple[LedgerRecord, ...]) -> dict[str, Any]:
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
