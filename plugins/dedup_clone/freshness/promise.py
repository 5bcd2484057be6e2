"""Judges the promise itself: is what has arrived live in time, and will it be?"""

from __future__ import annotations

from datetime import datetime, timedelta

from dedup_clone.freshness.budget import over_budget
from dedup_clone.freshness.facts import Facts, WaitingDelivery
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.usual import usual_remaining
from dedup_clone.freshness.words import clock, readers_see, span


def promise_kept(now: datetime, facts: Facts) -> list[Incident]:
    """Missed, at risk, or neither: judged by the delivery that waits longest."""
    oldest = facts.oldest_waiting
    if oldest is None:
        return []
    due, remaining = oldest.arrived_at + facts.promise, usual_remaining(now, facts)
    if now > due:
        return [_missed(now, facts, oldest, due)]
    # The next look must not come after the miss: whoever is warned then is warned too late.
    if now + remaining + facts.look_again > due:
        return [_at_risk(now, facts, oldest, due, remaining)]
    return []


def not_too_old(now: datetime, facts: Facts) -> list[Incident]:
    """The age of what readers see, whether or not anything waits."""
    limit = facts.settings.max_age_minutes
    if limit is None or facts.live is None or now - facts.live.arrived_at <= timedelta(minutes=limit):
        return []
    return [
        Incident(
            Kind.TARGET_TOO_OLD,
            Severity.ALERT,
            since=facts.live.arrived_at + timedelta(minutes=limit),
            what=f"the snapshot in target arrived {span(now - facts.live.arrived_at)} ago, promised are {limit} min.",
            readers_see=readers_see(facts, now),
            next_step="see whether a snapshot waits or none has come, and why (other alerts of this feed say it).",
        )
    ]


def _missed(now: datetime, facts: Facts, oldest: WaitingDelivery, due: datetime) -> Incident:
    return Incident(
        Kind.PROMISE_MISSED,
        Severity.ALERT,
        since=due,
        what=(
            f"{_arrived(now, oldest)}, and is not live; promised are {facts.settings.promise_minutes} min. "
            f"{_where_it_stands(now, facts)}"
        ),
        readers_see=readers_see(facts, now),
        next_step="open the publish run that is at work (or failed) and read the log of the task it stands at.",
    )


def _at_risk(now: datetime, facts: Facts, oldest: WaitingDelivery, due: datetime, remaining: timedelta) -> Incident:
    return Incident(
        Kind.PROMISE_AT_RISK,
        Severity.WARNING,
        since=now,
        what=(
            f"{_arrived(now, oldest)}; what remains usually takes {span(remaining)}, and it is due in "
            f"{span(due - now)} ({clock(due)}). "
            f"{_where_it_stands(now, facts)} {over_budget(facts.history, facts.promise)}"
        ).rstrip(),
        readers_see=readers_see(facts, now),
        next_step="watch the publish run; see whether Spark or BigQuery queue, and whether an earlier run blocks it.",
    )


def _arrived(now: datetime, waiting: WaitingDelivery) -> str:
    ago = span(now - waiting.arrived_at)
    return f"snapshot {waiting.delivery.snapshot_id} arrived {clock(waiting.arrived_at)}, {ago} ago"


def _where_it_stands(now: datetime, facts: Facts) -> str:
    waiting = f"{len(facts.waiting)} delivery(ies) wait. " if len(facts.waiting) > 1 else ""
    if any(not w.registered for w in facts.waiting):
        waiting += "Not every one was noticed by the watch DAG. "
    intent = facts.current.intent
    if intent is None:
        return f"{waiting}No run holds the lease."
    step = intent.jobs[-1] if intent.jobs else "no BigQuery job yet"
    return f"{waiting}Run [{intent.run_id}] holds the lease since {span(now - intent.taken_at)}; last step: {step}."
