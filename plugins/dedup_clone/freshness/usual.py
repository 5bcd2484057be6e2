"""How long a publish usually takes from where it stands, by the phases of those before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from dedup_clone.freshness.facts import Facts
from dedup_clone.state.current import IntentKind
from dedup_clone.state.ledger import LedgerRecord

PUBLISHES_COMPARED = 20
PUBLISHES_NEEDED = 3  # with fewer, half the promise is taken for usual


@dataclass(frozen=True)
class Usual:
    """Medians: from the lease to the swap, and what of it comes after the dedup job."""

    work: timedelta
    after_dedup: timedelta


def usual(history: tuple[LedgerRecord, ...], promise: timedelta) -> Usual:
    """Of the last publishes; those by hand and rollbacks have no lag and are left out."""
    known = [r for r in history if r.lag_s is not None and "until_lease" in r.phases][-PUBLISHES_COMPARED:]
    if len(known) < PUBLISHES_NEEDED:
        return Usual(promise / 2, promise / 4)
    work = [max(0.0, (r.lag_s or 0.0) - r.phases["until_lease"]) for r in known]
    after = [max(0.0, w - r.phases.get("dedup", 0.0)) for w, r in zip(work, known, strict=True)]
    return Usual(timedelta(seconds=median(work)), timedelta(seconds=median(after)))


def usual_remaining(now: datetime, facts: Facts) -> timedelta:
    """Until the swap, for a delivery that is being published or waits."""
    typical, intent = usual(facts.history, facts.promise), facts.current.intent
    if intent is None or intent.kind is not IntentKind.PUBLISH:
        return typical.work
    if any("-load-" in job for job in intent.jobs):
        return typical.after_dedup
    return max(typical.work - (now - intent.taken_at), typical.after_dedup)
