"""Evaluates a feed's freshness: runs all checks and derives the verdict from their incidents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dedup_clone.freshness.arrival_checks import check_arrivals, next_expected
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.freshness.incident import Incident, IncidentKind
from dedup_clone.freshness.operation_checks import check_dags, check_deliveries, check_lease, check_publish_runs
from dedup_clone.freshness.sla_checks import check_age, check_sla
from dedup_clone.freshness.target_checks import check_contents, check_target
from dedup_clone.freshness.verdict import VERDICT_VERSION, FreshnessStatus, FreshnessVerdict

# Incidents are listed in the order of these checks: the most important first.
CHECKS = (
    check_sla,
    check_arrivals,
    check_age,
    check_contents,
    check_dags,
    check_publish_runs,
    check_lease,
    check_target,
    check_deliveries,
)
# With one of these incidents it is not known whether a newer snapshot has landed. The page says why.
_NOT_WATCHED = {
    IncidentKind.WATCH_PAUSED: "the watch DAG is paused",
    IncidentKind.WATCH_FAILING: "the watch DAG fails",
    IncidentKind.WATCH_IDLE: "the watch DAG does not run",
}
LATE_KINDS = {IncidentKind.SLA_MISSED, IncidentKind.TARGET_TOO_OLD}


def find_incidents(now: datetime, state: FeedState) -> list[Incident]:
    """What is wrong at `now` (UTC). A pure function: the same state gives the same incidents."""
    return [incident for check in CHECKS for incident in check(now, state)]


def evaluate(now: datetime, state: FeedState) -> FreshnessVerdict:
    """The verdict at `now` (UTC)."""
    incidents = find_incidents(now, state)
    return FreshnessVerdict(
        format_version=VERDICT_VERSION,
        feed=state.feed,
        status=_status(state, incidents),
        headline=_headline(state, incidents),
        incidents=tuple(incidents),
        checked_at=now,
        check_interval_s=state.check_interval.total_seconds(),
        next_expected_at=next_expected(state.settings.expected_arrivals, now),
        waiting=len(state.waiting),
        is_started=bool(state.arrivals) or state.current.generation is not None,
    )


def _status(state: FeedState, incidents: list[Incident]) -> FreshnessStatus:
    if any(incident.kind in LATE_KINDS for incident in incidents):
        return FreshnessStatus.LATE
    if incidents:
        return FreshnessStatus.AT_RISK
    return FreshnessStatus.EMPTY if state.current.generation is None else FreshnessStatus.FRESH


def _headline(state: FeedState, incidents: list[Incident]) -> str:
    caveats = "".join(f"; {text}" for text in _caveats(state, incidents))
    generation, live = state.current.generation, state.live
    if generation is None:
        return f"Nothing is published yet{caveats}."
    if live is None:
        return f"Readers see generation {generation}{caveats}."
    if live.is_bootstrap:
        return f"Readers see the table that was taken over, up to update id {live.snapshot_id}{caveats}."
    if live.restores is not None:
        return f"Readers see snapshot {live.snapshot_id} again, by a rollback to generation {live.restores}{caveats}."
    replay = ""
    if live.is_replay:
        replayed = ", ".join(str(delivery.snapshot_id) for delivery in live.deliveries)
        replay = f" The last publish was a replay of {f'snapshot {replayed}' if replayed else 'some dates'}."
    return f"Readers see snapshot {live.snapshot_id}{caveats or ', the newest one'}.{replay}"


def _caveats(state: FeedState, incidents: list[Incident]) -> Iterator[str]:
    """Why the snapshot that readers see is not, or may not be, the newest one."""
    waiting, first = len(state.waiting), state.current.generation is None
    if waiting:
        yield f"{waiting}{'' if first else ' more'} {'waits' if waiting == 1 else 'wait'}"
    live_snapshot = state.live.snapshot_id if state.live else -1
    refused = sum(refused.delivery.snapshot_id > live_snapshot for refused in state.refused)
    if refused:
        yield f"{refused}{'' if first else ' newer'} refused"
    excluded = sum(delivery.snapshot_id > live_snapshot for delivery in state.excluded)
    if excluded:
        yield f"{excluded} newer excluded by a rollback"
    yield from (_NOT_WATCHED[incident.kind] for incident in incidents if incident.kind in _NOT_WATCHED)
