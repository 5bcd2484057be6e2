"""Judges whether target still is what the last publish left: nobody may change it by hand."""

from __future__ import annotations

from datetime import datetime

from dedup_clone.checks.tables import GENERATION_LABEL, MANIFEST_LABEL
from dedup_clone.freshness.facts import Facts, TargetState
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.words import readers_see


def target_untouched(now: datetime, facts: Facts) -> list[Incident]:
    """Nothing is judged before the first publish, nor while a swap is committed: then the labels are the intent's."""
    if facts.target is None or facts.current.generation is None or _being_committed(facts, facts.target):
        return []
    found = _differences(facts, facts.target)
    incidents = []
    if found:
        incidents.append(
            Incident(
                Kind.TARGET_DRIFT,
                Severity.ALERT,
                since=now,
                what="target is not what the last publish left: " + "; ".join(found) + ".",
                readers_see=_seen(facts, facts.target, now),
                next_step="see who changed it (jobs of the dataset), put labels and options back, replay the snapshot.",
            )
        )
    views = facts.target.materialized_views
    if views:
        incidents.append(
            Incident(
                Kind.TARGET_MATERIALIZED_VIEW,
                Severity.WARNING,
                since=now,
                what=f"materialised view(s) {', '.join(views)} read target: no snapshot can be published any more.",
                readers_see=readers_see(facts, now),
                next_step="drop them, or let them read a view of target, before the next snapshot is due.",
            )
        )
    return incidents


def _differences(facts: Facts, target: TargetState) -> list[str]:
    table = target.table
    if table is None:
        return ["it does not exist"]
    current, found = facts.current, []
    labels = {GENERATION_LABEL: str(current.generation), MANIFEST_LABEL: str(current.manifest_digest)}
    for label, expected in labels.items():
        if table.labels.get(label) != expected:
            found.append(f"label {label} is [{table.labels.get(label)}], expected [{expected}]")
    if table.clone_of != target.staging:
        found.append(f"it is a clone of [{table.clone_of}], expected [{target.staging}]")
    elif target.cloned_at is not None and table.clone_time != target.cloned_at:
        found.append(f"it was cloned as of [{table.clone_time}], expected [{target.cloned_at}]")
    if table.expiration_days != target.retention_days:
        found.append(f"partitions expire after [{table.expiration_days}] days, expected [{target.retention_days}]")
    return found


def _being_committed(facts: Facts, target: TargetState) -> bool:
    intent = facts.current.intent
    return (
        intent is not None
        and target.table is not None
        and target.table.labels.get(GENERATION_LABEL) == str(intent.generation)
    )


def _seen(facts: Facts, target: TargetState, now: datetime) -> str:
    if target.table is None:
        return "an error: the table is gone"
    return f"what somebody left there ({target.table.rows} rows); published was {readers_see(facts, now)}"
