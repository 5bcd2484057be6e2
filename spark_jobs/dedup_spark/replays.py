"""A replay of what is live: every delivery asked for is part of the parent already, so that nothing of it is read."""

from __future__ import annotations

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.parent import Parent


def changes_nothing(request: DedupRequest, parent: Parent) -> bool:
    """Whether the parent holds all that the request would apply: snapshots may be applied once or many times.

    Not where a plan is asked for that writes, nor where days are kept again that the parent had dropped.
    """
    if request.plan not in (Plan.AUTO, Plan.ADOPT) or request.retention_day < parent.complete_since:
        return False
    asked = [requested.delivery for requested in request.deliveries]
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED and any(d.snapshot_id != parent.newest_id for d in asked):
        return False  # late, and refused as such
    return parent.deliveries.issuperset(asked)
