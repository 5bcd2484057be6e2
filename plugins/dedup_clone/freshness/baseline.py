"""Computes how long a feed's publishes usually take: medians over its last publishes, from the ledger's phases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from dedup_clone.contract.kind import Kind
from dedup_clone.freshness.durations import format_duration
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.state.ledger import PUBLISHES_COMPARED, LedgerRecord, count_loads

# With fewer publishes, half of the SLA counts as the usual duration from lease to swap, and a quarter as that from the
# end of the dedup job to the swap. A phase that fewer publishes have is not compared with its budget.
PUBLISHES_NEEDED = 3

# The latency budget of an SLA of one hour: minutes for each phase, named as in the ledger (docs/hour.md). The rest of
# the hour is for the short phases, and a reserve.
BUDGET_MINUTES_PER_HOUR = {"until_lease": 2, "spark_start": 2, "dedup": 20, "load": 25, "swap": 1, "queued": 1}


@dataclass(frozen=True)
class Baseline:
    """Median durations from lease to swap, and from the end of the dedup job to swap.

    `is_measured`: False if there were too few publishes, so that shares of the SLA are assumed instead.
    """

    lease_to_swap: timedelta
    after_dedup: timedelta
    is_measured: bool = True


def compute_baseline(history: tuple[LedgerRecord, ...], sla: timedelta) -> Baseline:
    """The medians over the last publishes in `history`.

    Replays and other records without a lag, or without the phase `until_lease`, are left out.
    """
    publishes = [r for r in _with_lag(history) if "until_lease" in r.phases][-PUBLISHES_COMPARED:]
    if len(publishes) < PUBLISHES_NEEDED:
        return Baseline(sla / 2, sla / 4, is_measured=False)
    to_swap_s = [max(0.0, (r.lag_s or 0.0) - r.phases["until_lease"]) for r in publishes]
    after_dedup_s = [max(0.0, s - _until_dedup_ended_s(r)) for s, r in zip(to_swap_s, publishes, strict=True)]
    return Baseline(timedelta(seconds=median(to_swap_s)), timedelta(seconds=median(after_dedup_s)))


def _until_dedup_ended_s(record: LedgerRecord) -> float:
    """Seconds from the lease to the end of the dedup job. An engine in SQL has no `spark_start`."""
    return sum(record.phases.get(phase, 0.0) for phase in ("task_start", "spark_start", "dedup"))


def remaining_time(now: datetime, state: FeedState) -> timedelta:
    """The usual time until the swap of the delivery that is being published, or is published next."""
    medians, intent = compute_baseline(state.history, state.sla), state.current.intent
    if intent is None or intent.kind is not Kind.PUBLISH:
        return medians.lease_to_swap
    if count_loads(intent.jobs):  # the load job is recorded, so the dedup job has ended
        return medians.after_dedup
    return max(medians.lease_to_swap - (now - intent.taken_at), medians.after_dedup)


def describe_remaining(remaining: timedelta, state: FeedState) -> str:
    """Return a phrase such as `what remains usually takes 25 min`, or `is assumed to take` after too few publishes."""
    is_measured = compute_baseline(state.history, state.sla).is_measured
    return f"what remains {'usually takes' if is_measured else 'is assumed to take'} {format_duration(remaining)}"


def describe_over_budget(history: tuple[LedgerRecord, ...], sla: timedelta) -> str:
    """Return a sentence that names the phases whose median exceeds their latency budget; empty if there is none."""
    publishes = _with_lag(history)[-PUBLISHES_COMPARED:]
    exceeded = []
    for phase, minutes in BUDGET_MINUTES_PER_HOUR.items():
        seconds = [r.phases[phase] for r in publishes if phase in r.phases]
        budget = sla * minutes / 60
        if len(seconds) >= PUBLISHES_NEEDED and timedelta(seconds=median(seconds)) > budget:
            typical = format_duration(timedelta(seconds=median(seconds)))
            exceeded.append(f"{phase} takes {typical} of {format_duration(budget)}")
    return f"Usually over budget (docs/hour.md): {', '.join(exceeded)}." if exceeded else ""


def _with_lag(history: tuple[LedgerRecord, ...]) -> list[LedgerRecord]:
    return [record for record in history if record.lag_s is not None]
