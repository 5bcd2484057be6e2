"""Checks that the last publish left target right, that it is still so, and what audits found in its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dedup_clone.checks.partition_checks import roll_back_to
from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.freshness.feed_state import FeedState, TargetState
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, format_time
from dedup_clone.warehouse.metadata import TableMetadata

MATERIALIZED_VIEW = "materialized_view"  # the subject of an incident that only BigQuery tells


def check_target(now: datetime, state: FeedState) -> Iterator[Incident]:
    """Target must be as its publish left it, and no materialized view may read it.

    Not checked before the first publish, between swap and commit, and if BigQuery did not answer.
    """
    target = state.target
    if target is None or state.current.generation is None or state.uncommitted is not None:
        return
    differences = _differences(state, target)
    if differences:
        yield Incident(
            IncidentKind.TARGET_DRIFT,
            Severity.ALERT,
            since=now,
            what="target is not what the last publish left: " + "; ".join(differences) + ".",
            readers_see=_readers_see(state, target, now),
            next_step=f"see who changed target (jobs of the dataset). {_way_back(state, target)}",
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
    evidence = "; ".join(f"{r.check}: {r.found}, expected {r.expected}" for r in failed)
    yield Incident(
        IncidentKind.TARGET_DRIFT,
        Severity.ALERT,
        since=state.live.swapped_at or now,
        what=f"checks failed after generation {state.live.generation} became live: {evidence}.",
        next_step=" ".join(f"[{r.check}]: {r.next_step}" for r in failed),
        subject=f"after_swap-{state.live.generation}",
        dag_id=state.live.dag_id,
        run_id=state.live.run_id,
    )


def check_contents(now: datetime, state: FeedState) -> Iterator[Incident]:
    """One incident for each unequal partition, until an audit finds the partition equal, or the partition expires."""
    for record in state.audits.unequal:
        found = record.comparison.difference if record.comparison else "not compared"
        yield Incident(
            IncidentKind.CONTENT_UNEQUAL,
            Severity.ALERT,
            since=record.audited_at,
            what=(
                f"partition {record.date} of target did not hold what was published as generation {record.generation}, "
                f"audited {format_time(record.audited_at)}: {found}."
            ),
            readers_see=f"wrong rows or wrong values on {record.date}",
            next_step="replay the live snapshot, then audit this date again by hand; the runbook has each step.",
            subject=record.date.isoformat(),
        )


def _differences(state: FeedState, target: TargetState) -> list[str]:
    """How target differs from what the last publish left, one text for each difference."""
    table = target.table
    if table is None:
        return ["it does not exist"]
    found = [
        f"label {label} is [{table.labels.get(label)}], expected [{expected}]"
        for label, expected in _wrong_labels(state, table).items()
    ]
    if table.clone_of != target.staging:
        found.append(f"it is a clone of [{table.clone_of}], expected [{target.staging}]")
    elif target.cloned_at is not None and table.clone_time != target.cloned_at:
        found.append(f"it was cloned as of [{table.clone_time}], expected [{target.cloned_at}]")
    if table.expiration_days != target.retention_days:
        found.append(f"partitions expire after [{table.expiration_days}] days, expected [{target.retention_days}]")
    is_told = any(result.check == "target_rows" for result in state.failed_after_swap)
    if target.wrong_rows and not is_told:
        found.append(f"rows were added or deleted ({target.wrong_rows})")
    return found


def _wrong_labels(state: FeedState, table: TableMetadata) -> dict[str, str]:
    """The labels that differ from those of the last publish, with the values that they should have."""
    current = state.current
    labels = {GENERATION_LABEL: str(current.generation), MANIFEST_LABEL: str(current.manifest_digest)}
    return {label: value for label, value in labels.items() if table.labels.get(label) != value}


def _way_back(state: FeedState, target: TargetState) -> str:
    """What to do so that target is again what the last publish left. A rollback needs the right labels first."""
    table, live = target.table, state.current.generation
    if table is None or live is None:
        return f"Run `python -m deploy recover {state.feed}`, which makes target from staging again."
    labels, steps = _wrong_labels(state, table), []
    if labels:
        settings = " ".join(f"--set_label {label}:{value}" for label, value in labels.items())
        steps.append(f"set its labels back: `bq update {settings} DATASET.{table.name}`")
    if len(_differences(state, target)) > len(labels):
        steps.append(roll_back_to(live))
    text = "; then ".join(steps)
    return f"{text[0].upper()}{text[1:]}."


def _readers_see(state: FeedState, target: TargetState, now: datetime) -> str:
    if target.table is None:
        return "an error: the table does not exist"
    return f"a table changed by hand ({target.table.rows} rows); published was {state.readers_see(now)}"
