"""Describes what a retirement would do, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dedup_clone.publish.retirement.retire_feed import RetirementRequest, require_exportable
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import waiting_names
from dedup_clone.state.current import TargetAction


def preview_retirement(services: Services, request: RetirementRequest) -> str:
    """What the retirement would do, as Markdown.

    Raises FeedHeldElsewhere, and ConfigurationError for what cannot be done.
    """
    current = services.current.read_for(services.environment)
    live = None if current.generation is None else services.manifests.read(current.generation)
    require_exportable(services, request, live)
    folder = services.store.uri(f"{services.layout.feed}/")
    views = services.warehouse.materialized_views_of(services.feed.target)
    shown = f"generation {live.generation}, snapshot {live.snapshot_id}, {live.rows} rows" if live else "nothing"
    lines = [
        f"**Retire {services.feed.feed}**",
        "",
        f"- Live: {shown}.",
        f"- Target: {_target_text(services, request.target)}",
        f"- Tables [{services.feed.staging}] and, if it exists, [{services.names.changes_table}] are dropped.",
        f"- Deleted in [{folder}]: data files, manifests, arrivals, attempts, the page's index. Kept: the ledger, "
        f"records of erasures with the secret of their hashes, and CURRENT, which says what was done.",
        "- The feed leaves the page, the watchdog's checks and the status view. Its rows in the ledger table stay.",
        f"- Deliveries that wait and will not be published: {waiting_names(services, live)}. Landing stays as it is.",
        f"- Materialized views over target: {', '.join(views) or 'none'}.",
        *_erasure_line(request.target),
        "- Afterwards delete the feed's file and release that (`make deploy`): until then its DAGs do nothing.",
    ]
    return "\n".join(lines)


def _erasure_line(action: TargetAction) -> list[str]:
    if action is TargetAction.DROP:
        return []
    return [
        "- Keys of a person can **no longer be erased** from what stays: do that before, or choose [drop] "
        "(docs/retire-a-feed.md)."
    ]


def _target_text(services: Services, action: TargetAction) -> str:
    days = services.feed.table.retention_days
    match action:
        case TargetAction.KEEP:
            return (
                f"[{services.feed.target}] stays as it is, for its readers. Its partitions go on expiring after {days} "
                f"days, so it will be empty then."
            )
        case TargetAction.EXPORT:
            return f"[{services.feed.target}] is exported to Parquet files in state, compared, and dropped."
        case TargetAction.DROP:
            return f"[{services.feed.target}] is **dropped**. BigQuery's time travel can restore it for some days."
