"""All judgements, in the order in which an operator wants to read them."""

from __future__ import annotations

from datetime import datetime

from dedup_clone.freshness.arrivals import overdue
from dedup_clone.freshness.contents import contents_equal
from dedup_clone.freshness.drift import target_untouched
from dedup_clone.freshness.facts import Facts
from dedup_clone.freshness.incident import Incident
from dedup_clone.freshness.promise import not_too_old, promise_kept
from dedup_clone.freshness.work import dags_at_work, deliveries_usable, lease_free_in_time

JUDGEMENTS = (
    promise_kept,
    overdue,
    not_too_old,
    contents_equal,
    dags_at_work,
    lease_free_in_time,
    target_untouched,
    deliveries_usable,
)


def judge(now: datetime, facts: Facts) -> list[Incident]:
    """What is wrong at `now` (UTC). Pure: the same facts give the same incidents."""
    return [incident for judgement in JUDGEMENTS for incident in judgement(now, facts)]
