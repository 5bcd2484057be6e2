"""Checks that the last publish left target right, that it is still so, and what audits found in its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.checks.partition_checks import check_expiration, roll_back_to
from dedup_clone.checks.table_checks import check_target_is_clone, check_target_labels
from dedup_clone.freshness.feed_state import FeedState, describe_live
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, format_time

MATERIALIZED_VIEW = "materialized_view"  # the subject of an incident that only BigQuery tells


def check_target(now: datetime, state: FeedState) -> Iterator[Incident]:
    """Target must be as its publish left it, and no materialized view may read it.

    Not checked before the first publish, between swap and commit, and if BigQuery did not answer.
    """
    target, live = state.target, state.current.generation
    if target is None or live is None or state.uncommitted is not None:
        return
    failed = _failed_checks(state)
    if target.table is None or failed:
        found = "it does not exist" if target.table is None else "; ".join(result.evidence for result in failed)
        yield Incident(
            IncidentKind.TARGET_DRIFT,
            Severity.ALERT,
            since=now,
            what=f"target is not what the last publish left: {found}.",
            next_step=f"see who changed target (jobs of the dataset). {_way_back(state, failed, live)}",
        )
    if target.materialized_views:
        views = ", ".join(target.materialized_views)
        yield Incident(
            IncidentKind.STOPPED,
            Severity.WARNING,
            since=now,
            what=f"materialized view(s) {views} read target: no snapshot can be published any more.",
            next_step="drop these views, or let them read a view of target, before the next snapshot is due.",
            subject=MATERIALIZED_VIEW,
        )


def check_after_swap(now: datetime, state: FeedState) -> Iterator[Incident]:
    """No check after the swap of the live generation may have failed. Ends when another generation is live."""
    failed = state.failed_after_swap
    if not failed or state.live is None:
        return
    yield Incident(
        IncidentKind.TARGET_DRIFT,
        Severity.ALERT,
        since=state.live.swapped_at or now,
        what=f"checks failed after generation {state.live.generation} became live: "
        f"{'; '.join(result.evidence for result in failed)}.",
        next_step=" ".join(f"[{r.check}]: {r.next_step}" for r in failed),
        subject=f"after_swap-{state.live.generation}",
        dag_id=state.live.dag_id,
        run_id=state.live.run_id,
    )


def check_contents(now: datetime, state: FeedState) -> Iterator[Incident]:
    """One incident for each unequal partition, until an audit finds the partition equal, or the partition expires."""
    for record in state.audits.unequal:
        yield Incident(
            IncidentKind.CONTENT_UNEQUAL,
            Severity.ALERT,
            since=record.audited_at,
            what=(
                f"partition {record.date} of target did not hold what was published as generation {record.generation}, "
                f"audited {format_time(record.audited_at)}: {record.comparison.difference}."
            ),
            next_step="replay the live snapshot, then audit this date again by hand; the runbook has each step.",
            subject=record.date.isoformat(),
        )


def readers_see(state: FeedState) -> str:
    """What a query of target returns now."""
    table = None if state.target is None else state.target.table
    if state.current_is_lost:
        return "the table that was published last"
    if state.uncommitted is not None:
        run, generation = state.uncommitted.run_id, state.uncommitted.generation
        return f"generation {generation}, which run [{run}] has not committed"
    if state.current.generation is not None and state.target is not None and table is None:
        return "an error: the table does not exist"
    published = describe_live(state.live, state.current.generation)
    if table is not None and _failed_checks(state):
        return f"a table changed by hand ({table.rows} rows); published was {published}"
    return published


def _failed_checks(state: FeedState) -> list[CheckResult]:
    """The checks after a swap that target fails now. Wrong rows that failed after the swap already have an incident.

    None without target, before the first publish, and while swap `copy` loads target.
    """
    target, live = state.target, state.current.generation
    table = None if target is None else target.table
    if target is None or table is None or live is None or target.is_changing:
        return []
    results = [
        check_target_labels(table, live, str(state.current.manifest_digest)),
        check_expiration("target_expiration", table, target.retention_days),
    ]
    if target.cloned_at is not None:
        results.append(check_target_is_clone(table, target.staging, target.cloned_at))
    if target.rows is not None and all(told.check != target.rows.check for told in state.failed_after_swap):
        results.append(target.rows)
    return [result for result in results if result.level is Level.FAIL]


def _way_back(state: FeedState, failed: list[CheckResult], live: int) -> str:
    """What to do so that target is again what the last publish left. A rollback needs the right labels first."""
    if not failed:
        return f"Run `python -m deploy recover {state.feed}`, which makes target from staging again."
    steps = [result.next_step for result in failed if result.check == "target_labels"]
    if len(failed) > len(steps):
        steps.append(f"{roll_back_to(live)}.")
    text = " Then ".join(steps)
    return f"{text[0].upper()}{text[1:]}"
