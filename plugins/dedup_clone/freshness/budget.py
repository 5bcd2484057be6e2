"""What each phase of a publish may take of the promise, and which phases of this feed usually take more."""

from __future__ import annotations

from datetime import timedelta
from statistics import median

from dedup_clone.freshness.usual import PUBLISHES_COMPARED, PUBLISHES_NEEDED
from dedup_clone.freshness.words import span
from dedup_clone.state.ledger import LedgerRecord

# Minutes of a promise of an hour, by the ledger's names of phases; docs/hour.md has the reasons. What is left of the
# hour is the start of Spark and a reserve.
MINUTES_OF_AN_HOUR = {"until_lease": 2, "dedup": 20, "load": 25, "swap": 1}


def over_budget(history: tuple[LedgerRecord, ...], promise: timedelta) -> str:
    """A sentence that names the phases whose usual time is above their share of `promise`; empty when none is."""
    known = [record.phases for record in history if record.lag_s is not None][-PUBLISHES_COMPARED:]
    too_slow = []
    for phase, share in MINUTES_OF_AN_HOUR.items():
        seconds = [phases[phase] for phases in known if phase in phases]
        allowed = promise * share / 60
        if len(seconds) >= PUBLISHES_NEEDED and timedelta(seconds=median(seconds)) > allowed:
            too_slow.append(f"{phase} takes {span(timedelta(seconds=median(seconds)))} of {span(allowed)}")
    return f"Usually over budget (docs/hour.md): {', '.join(too_slow)}." if too_slow else ""
