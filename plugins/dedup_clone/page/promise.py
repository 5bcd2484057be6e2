"""Is the feed fresh, at risk or late? Judged whenever somebody looks, from the index and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.page.kinds import Kind, kinds_of
from dedup_clone.page.schedule import due_today
from dedup_clone.state.index import Fate, Index, IndexArrival

RISK_SHARE = 0.5  # of the promise used up while a delivery still waits


class State(StrEnum):
    """EMPTY: nothing was published yet, and nothing is overdue."""

    FRESH = "fresh"
    AT_RISK = "at risk"
    LATE = "late"
    EMPTY = "empty"


@dataclass(frozen=True)
class Judgement:
    """`headline` says what readers see; `reasons` why the state is not fresh, most pressing first."""

    state: State
    headline: str
    reasons: tuple[str, ...]


def judge(index: Index, now: datetime) -> Judgement:
    """The state of one feed at `now` (UTC)."""
    late, risks = _waiting(index, now)
    late += _too_old(index, now)
    risks += _overdue(index, now) + _last_publish(index)
    state = State.LATE if late else State.AT_RISK if risks else State.FRESH
    if index.generation is None and state is State.FRESH:
        state = State.EMPTY
    return Judgement(state, _headline(index), tuple(late + risks))


def waiting_arrivals(index: Index) -> list[IndexArrival]:
    """Deliveries that readers do not see yet, the one that has waited longest first."""
    return [a for a in index.arrivals if a.fate is Fate.WAITING]


def duration(seconds: float) -> str:
    """A length of time as a person says it: `26 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _headline(index: Index) -> str:
    waiting = waiting_arrivals(index)
    behind = "" if not waiting else f"; {len(waiting)} more {'waits' if len(waiting) == 1 else 'wait'}"
    if index.generation is None:
        return f"Nothing is published yet{behind.replace(' more', '')}."
    live = next((r for r in reversed(index.records) if r.generation == index.generation), None)
    if live is None:
        return f"Readers see generation {index.generation}{behind}."
    if live.restores is not None:
        return f"Readers see snapshot {live.snapshot_id} again, by a rollback to generation {live.restores}{behind}."
    if live.is_bootstrap:
        return f"Readers see the table that was taken over, up to update id {live.snapshot_id}{behind}."
    return f"Readers see snapshot {live.snapshot_id}{behind or ', the newest one'}."


def _waiting(index: Index, now: datetime) -> tuple[list[str], list[str]]:
    promise_s = index.promise_minutes * 60
    late, risks = [], []
    for arrival in waiting_arrivals(index):
        waited_s = (now - arrival.arrived_at).total_seconds()
        text = f"Snapshot {arrival.delivery.snapshot_id} has waited {duration(waited_s)} of {index.promise_minutes} min"
        failure = _failure_since(index, arrival)
        if waited_s > promise_s:
            late.append(f"{text}.{failure}")
        elif waited_s > promise_s * RISK_SHARE or failure:
            risks.append(f"{text}.{failure}")
    return late, risks


def _failure_since(index: Index, arrival: IndexArrival) -> str:
    failed = [f for f in index.failures if arrival.delivery in f.deliveries]
    return f" Its last attempt failed: {failed[-1].reason}." if failed else ""


def _overdue(index: Index, now: datetime) -> list[str]:
    overdue = [d for d in due_today(index, now) if d.is_overdue]
    if not overdue or any(d.met for d in due_today(index, now) if d.at > overdue[-1].at):
        return []  # a later one came: nobody waits for a snapshot that a newer one has replaced
    at = overdue[-1].at
    return [f"The snapshot expected at {at:%H:%M} has not arrived, {duration((now - at).total_seconds())} later."]


def _too_old(index: Index, now: datetime) -> list[str]:
    if index.max_age_minutes is None or not index.records:
        return []
    age_s = (now - index.records[-1].arrived_at).total_seconds()
    if age_s <= index.max_age_minutes * 60:
        return []
    return [f"What readers see arrived {duration(age_s)} ago; promised are {index.max_age_minutes} min at most."]


def _last_publish(index: Index) -> list[str]:
    last = index.records[-1] if index.records else None
    if last is None or last.lag_s is None or kinds_of(index)[last.generation] is not Kind.PUBLISH:
        return []
    over_s = last.lag_s - index.promise_minutes * 60
    return [f"The last publish broke the promise by {duration(over_s)}."] if over_s > 0 else []
