"""Evaluates a feed's freshness: runs all checks and derives the verdict from their incidents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.freshness.arrival_checks import check_arrivals, next_expected
from dedup_clone.freshness.durations import format_time
from dedup_clone.freshness.feed_state import MIXED, REFUSALS_READ, FeedState, describe_uncommitted
from dedup_clone.freshness.incident import Incident, IncidentKind
from dedup_clone.freshness.newer_deliveries import describe_newer_not_live, newer
from dedup_clone.freshness.operation_checks import (
    check_dags,
    check_deliveries,
    check_lease,
    check_pending_job,
    check_publish_runs,
    check_records,
)
from dedup_clone.freshness.sla_checks import check_age, check_sla
from dedup_clone.freshness.target_checks import check_after_swap, check_contents, check_target
from dedup_clone.freshness.verdict import NEWEST_SUFFIX, FreshnessStatus, FreshnessVerdict

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
# With one of these incidents a newer snapshot may have landed unnoticed, or stay unpublished. The headline says why.
_NOT_PUBLISHING = {
    IncidentKind.WATCH_PAUSED: "the watch DAG is paused",
    IncidentKind.WATCH_FAILING: "the watch DAG fails",
    IncidentKind.WATCH_IDLE: "the watch DAG registers nothing",
    IncidentKind.PUBLISH_PAUSED: "the publish DAG is paused",
    IncidentKind.TARGET_MATERIALIZED_VIEW: "a materialized view of target prevents publishes",
}
# The kinds of incidents that are looked for only if BigQuery answers.
BIGQUERY_KINDS = (IncidentKind.TARGET_DRIFT, IncidentKind.TARGET_MATERIALIZED_VIEW, IncidentKind.JOB_PENDING)
LATE_KINDS = {IncidentKind.SLA_MISSED, IncidentKind.TARGET_TOO_OLD}  # with one of these the status is LATE


def find_incidents(now: datetime, state: FeedState) -> list[Incident]:
    """What is wrong at `now` (UTC). A pure function: the same state gives the same incidents."""
    return [incident for check in CHECKS for incident in check(now, state)]


def unchecked_kinds(state: FeedState) -> set[IncidentKind]:
    """The kinds of incidents that may have been overlooked, so that no incident of these kinds counts as ended."""
    kinds = set(BIGQUERY_KINDS) if state.target is None else set()
    kinds |= {IncidentKind.DELIVERY_HELD} if len(state.held) >= REFUSALS_READ else set()
    return kinds | {IncidentKind.DELIVERY_REFUSED} if state.may_lack_refusals else kinds


def evaluate(
    now: datetime,
    state: FeedState,
    *,
    previous: FreshnessVerdict | None = None,
    reported: Iterable[Incident] = (),
    runbook: str = "",
) -> FreshnessVerdict:
    """The verdict at `now` (UTC). `previous`: the verdict before it; `reported`: see `keep_first_seen`.

    A reported incident of a kind that could not be looked for is still in the verdict.
    `runbook`: the runbook's address, which the verdict repeats.
    """
    reported = tuple(reported)
    incidents = keep_first_seen(find_incidents(now, state), now, previous, reported)
    names, unchecked = {incident.name for incident in incidents}, unchecked_kinds(state)
    incidents += [i for i in reported if i.kind in unchecked and i.name not in names]
    return FreshnessVerdict(
        feed=state.feed,
        status=_status(state, incidents),
        headline=_headline(state, incidents),
        incidents=tuple(incidents),
        checked_at=now,
        check_interval_s=state.check_interval.total_seconds(),
        next_expected_at=next_expected(state.settings.expected_arrivals, now),
        waiting=len(state.waiting),
        is_started=bool(state.arrivals) or state.current.generation is not None or state.current_is_lost,
        runbook=runbook,
        due_at=state.due_at,
    )


def keep_first_seen(
    incidents: Iterable[Incident],
    now: datetime,
    previous: FreshnessVerdict | None,
    reported: Iterable[Incident] = (),
) -> list[Incident]:
    """Return the incidents, each with the time at which it began as far as that is known.

    A check that cannot tell when its incident began sets `since` to `now`. If the incident is in the previous verdict,
    or among the `reported` ones, which have not ended, the `since` found there is used instead; that of a reported one
    takes precedence. The previous verdict alone is not enough: it may be that of another version, which is not read.
    """
    before = [*(previous.incidents if previous else ()), *reported]
    first_seen = {incident.name: incident.since for incident in before}
    return [replace(i, since=first_seen.get(i.name, now)) if i.since == now else i for i in incidents]


def _status(state: FeedState, incidents: list[Incident]) -> FreshnessStatus:
    if any(incident.kind in LATE_KINDS for incident in incidents):
        return FreshnessStatus.LATE
    if state.failed_checks or newer(state, [held.delivery for held in state.held]):
        return FreshnessStatus.STOPPED
    if incidents:
        return FreshnessStatus.AT_RISK
    if state.current.generation is None:
        return FreshnessStatus.EMPTY
    return FreshnessStatus.ROLLED_BACK if newer(state, state.excluded) else FreshnessStatus.FRESH


def _headline(state: FeedState, incidents: list[Incident]) -> str:
    caveats = "".join(f"; {text}" for text in _caveats(state, incidents))
    return f"{_what_readers_see(state)}{caveats or _newest_note(state)}.{_replay_note(state)}{_approval_note(state)}"


def _what_readers_see(state: FeedState) -> str:
    text = _what_is_live(state)
    return f"{text} {MIXED}" if state.target_is_mixed else text


def _what_is_live(state: FeedState) -> str:
    generation, live = state.current.generation, state.live
    if state.current_is_lost:
        return "Nobody knows what is published, because CURRENT is gone"
    if state.uncommitted is not None:
        return f"Readers see {describe_uncommitted(state.uncommitted)}"
    if generation is None:
        return "Nothing is published yet"
    if live is None:
        return f"Readers see generation {generation}"
    again = "" if live.restores is None else f" again, by a rollback to generation {live.restores}"
    if live.taken_over:
        return f"Readers see the table that was taken over, up to update id {live.snapshot_id}{again and ','}{again}"
    return f"Readers see snapshot {live.snapshot_id}{again}"


def _newest_note(state: FeedState) -> str:
    """How a headline without caveats ends: with NEWEST_SUFFIX.

    Empty if the headline names no snapshot, or one that a rollback restored, or says that target is mixed.
    """
    live = None if state.uncommitted or state.target_is_mixed else state.live
    if live is None or live.taken_over or live.restores is not None:
        return ""
    return NEWEST_SUFFIX


def _replay_note(state: FeedState) -> str:
    if state.live is None or not state.live.is_replay:
        return ""
    replayed = ", ".join(str(delivery.snapshot_id) for delivery in state.live.deliveries)
    return f" The last publish was a replay of {f'snapshot {replayed}' if replayed else 'some dates'}."


def _approval_note(state: FeedState) -> str:
    intent = state.current.intent
    if intent is None or not intent.waits_for_approval:
        return ""
    return f" Generation {intent.generation} waits for an approval (Required Actions)."


def _caveats(state: FeedState, incidents: list[Incident]) -> Iterator[str]:
    """Why the snapshot that readers see is not, or may not be, the newest one, or is not all that they see."""
    if any(incident.kind is IncidentKind.TARGET_DRIFT for incident in incidents):
        yield "target is not what the last publish left"
    if state.failed_after_swap:
        yield f"failed after its swap: {_in_short(state.failed_after_swap)}"
    unequal = sum(incident.kind is IncidentKind.CONTENT_UNEQUAL for incident in incidents)
    if unequal:
        yield f"an audit found other values on {unequal} {'date' if unequal == 1 else 'dates'}"
    waiting, nothing_live = len(state.waiting), state.current.generation is None
    if waiting:
        more = "" if nothing_live else " more"
        yield f"{waiting}{more} {'waits' if waiting == 1 else 'wait'}{_reason_waiting(state)}"
    yield from describe_newer_not_live(state)
    invalid = len(state.invalid_markers)
    if invalid:
        yield f"{invalid} {'marker names' if invalid == 1 else 'markers name'} no delivery"
    if state.watch_dag is None:
        yield "Airflow does not know the watch DAG"
    for incident in incidents:
        if incident.kind in _NOT_PUBLISHING:
            yield f"{_NOT_PUBLISHING[incident.kind]} since {format_time(incident.since)}"


def _reason_waiting(state: FeedState) -> str:
    """Why the waiting deliveries were not published, and until when they wait: a person acts, or the next run starts.

    Empty if a run is at work, or none failed.
    """
    intent, run = state.current.intent, state.failed_run
    # A run that is at work may pass the checks that stopped the run before it.
    if state.failed_checks and (intent is None or intent.waits_for_approval):
        again = f"; tried again at {format_time(run.repeat_at)}" if run and run.repeat_at else ""
        return f", stopped: {_in_short(state.failed_checks)}{again}"
    if run is None or run.is_repeated:
        return ""
    if not run.reason and run.repeat_at is not None:  # no incident reports it yet
        return f": the last run published nothing, the next one starts at {format_time(run.repeat_at)}"
    until = "a person acts" if run.repeat_at is None else f"the next run at {format_time(run.repeat_at)}"
    return f" until {until}, because {run.reason}"


def _in_short(failed: Iterable[CheckResult]) -> str:
    return "; ".join(result.in_short for result in failed)
