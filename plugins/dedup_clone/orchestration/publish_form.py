"""The trigger form of the publish DAG: what a replay by hand may say."""

from __future__ import annotations

from airflow.sdk import Param

from dedup_clone.checks.verdicts import ACCEPTABLE_CHECKS
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.request import Plan
from dedup_clone.orchestration.deadlines import ARRIVED_AT

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"


def publish_params() -> dict[str, Param]:
    """Filled by the watch DAG for an arrival, by a person for a replay."""
    return {
        "snapshot_id": Param(
            None,
            type=["null", "string"],
            pattern="^[0-9]{1,19}$",
            title="Snapshot id",
            description="The snapshot to publish (its update_id). Publishing one again changes nothing that is right.",
        ),
        "marker_generation": Param(
            None,
            type=["null", "string"],
            pattern="^[0-9]{1,19}$",
            title="Delivery",
            description="Object generation of the marker; empty: the latest delivery of the snapshot.",
        ),
        "dates": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": f"^{_DATE}([.][.]{_DATE})?$"},
            title="Dates",
            description="Only these dates of the delivery, each YYYY-MM-DD or a range YYYY-MM-DD..YYYY-MM-DD; "
            "empty: all of it.",
        ),
        "engine": Param(
            None,
            type=["null", "string"],
            enum=[None, *(str(engine) for engine in Engine)],
            title="Engine",
            description="What deduplicates; empty: as the feed says.",
        ),
        "plan": Param(
            None,
            type=["null", "string"],
            enum=[None, *(str(plan) for plan in Plan)],
            title="Plan",
            description="How Spark deduplicates; empty: as the feed says.",
        ),
        "accepted_checks": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "enum": list(ACCEPTABLE_CHECKS)},
            examples=list(ACCEPTABLE_CHECKS),
            title="Accepted checks",
            description="Checks before the swap that may fail this time. If one does, the run waits for an approval.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only tell what would be read, computed, loaded, deleted and billed, and whether target would "
            "change: see the log or the result of resolve_publish.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description="Why this is published by hand; kept with the verdicts.",
        ),
        ARRIVED_AT: Param(
            None,
            type=["null", "string"],
            title="Arrival",
            description="Filled by the watch DAG: the deadline counts from it. Leave it empty for a replay.",
            section="Filled by the watch DAG",
        ),
    }
