"""Evaluates a feed's freshness: runs all checks and derives the verdict from their incidents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from dedup_clone.checks.check_result import without_examples
from dedup_clone.freshness.arrival_checks import check_age, check_arrivals, check_sla, expected_times
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.operation_checks import (
    JOB_PENDING,
    check_dags,
    check_deliveries,
    check_lease,
    check_pending_job,
    check_publish_runs,
    check_records,
)
from dedup_clone.freshness.target_checks import (
    MATERIALIZED_VIEW,
    check_after_swap,
    check_contents,
    check_target,
    readers_see,
)
from dedup_clone.freshness.verdict import FreshnessStatus, FreshnessVerdict

# Incidents are listed in the order of these checks: the most important first.
CHECKS = (
    check_sla,
    check_arrivals,
    check_age,
    check_records,
    check_after_swap,
    check_contents,
    check_dags,
    check_publish_runs,
    check_lease,
    check_pending_job,
    check_target,
    check_deliveries,
)
# The incidents that are looked for only if BigQuery answers: kind and subject of each.
TOLD_BY_BIGQUERY = {
    (IncidentKind.TARGET_DRIFT, ""),
    (IncidentKind.STOPPED, MATERIALIZED_VIEW),
    (IncidentKind.STOPPED, JOB_PENDING),
}


def find_incidents(now: datetime, state: FeedState) -> list[Incident]:
    """What is wrong at `now` (UTC). A pure function: the same state gives the same incidents."""
    return [incident for check in CHECKS for incident in check(now, state)]


def evaluate(
    now: datetime,
    state: FeedState,
    *,
    reported: tuple[Incident, ...] = (),
    runbook: str = "",
) -> FreshnessVerdict:
    """The verdict at `now` (UTC). `reported`: the open incidents; those that could not be looked for stay in it.

    `runbook`: the runbook's address, which the verdict repeats.
    """
    expected = state.settings.expected_arrivals
    incidents = keep_first_seen(find_incidents(now, state), now, reported)
    stopped = state.stopped and replace(state.stopped, failed=without_examples(state.stopped.failed))
    names = {incident.name for incident in incidents}
    if state.target is None:
        incidents += [i for i in reported if (i.kind, i.subject) in TOLD_BY_BIGQUERY and i.name not in names]
    return FreshnessVerdict(
        feed=state.feed,
        status=_status(state, incidents),
        readers_see=readers_see(state),
        incidents=tuple(incidents),
        checked_at=now,
        waiting=len(state.waiting),
        runbook=runbook,
        zone=expected.zone if expected else "UTC",
        expected=tuple(expected_times(expected, state.arrivals, now)),
        stopped=stopped,
        held=state.held,
    )


def keep_first_seen(incidents: Iterable[Incident], now: datetime, reported: Iterable[Incident]) -> list[Incident]:
    """Return the incidents, each with the time at which it began as far as that is known.

    A check that cannot tell when its incident began sets `since` to `now`. If the incident is among the `reported`
    ones, which have not ended, the `since` found there is used instead.
    """
    first_seen = {incident.name: incident.since for incident in reported}
    return [replace(i, since=first_seen.get(i.name, now)) if i.since == now else i for i in incidents]


def _status(state: FeedState, incidents: list[Incident]) -> FreshnessStatus:
    alerts = {incident.kind for incident in incidents if incident.severity is Severity.ALERT}
    if IncidentKind.LATE in alerts:
        return FreshnessStatus.LATE
    is_stopped_by_check = state.stopped is not None or state.has_newer(held.delivery for held in state.held)
    if is_stopped_by_check or IncidentKind.STOPPED in alerts:
        return FreshnessStatus.STOPPED
    if incidents:
        return FreshnessStatus.AT_RISK
    if state.current.generation is None:
        return FreshnessStatus.EMPTY
    return FreshnessStatus.ROLLED_BACK if state.has_newer(state.excluded) else FreshnessStatus.FRESH
