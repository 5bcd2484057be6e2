"""Describes what a retirement would do, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.publish.lease import require_own_feed
from dedup_clone.publish.retirement.retire_feed import RetirementRequest, require_exportable
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.state.retired import TargetAction


@dataclass(frozen=True)
class RetirementPreview:
    """What a retirement would do. `text` is Markdown for the operator.

    `generation`, `rows`: of the live generation; None and 0 without one.
    """

    feed: str
    generation: int | None
    rows: int
    text: str


def preview_retirement(services: Services, request: RetirementRequest) -> RetirementPreview:
    """Describe the retirement. Raises FeedHeldElsewhere, and ConfigurationError for what cannot be done."""
    current = require_own_feed(services)
    live = None if current.generation is None else services.manifests.read(current.generation)
    require_exportable(services, request, live)
    waiting = ", ".join(d.name for d in find_backlog(services, live).apply) or "none"
    folder = services.store.uri(f"{services.layout.feed}/")
    views = services.warehouse.materialized_views_of(services.feed.target)
    rows = live.rows if live else 0
    lines = [
        f"**Retire {services.feed.feed}**",
        "",
        f"- Live: {f'generation {live.generation}, snapshot {live.snapshot_id}, {rows} rows' if live else 'nothing'}.",
        f"- Target: {_target_text(services, request.target)}",
        f"- Tables [{services.feed.staging}] and, if it exists, [{services.names.changes_table}] are dropped.",
        f"- Deleted in [{folder}]: data files, manifests, arrivals, attempts, the page's index. Kept: the ledger, "
        f"records of erasures with the secret of their hashes, and RETIRED, which says what was done.",
        "- The feed leaves the page, the watchdog's checks and the status table. Its rows in the ledger table stay.",
        f"- Deliveries that wait and will not be published: {waiting}. Landing stays as it is.",
        f"- Materialized views over target: {', '.join(views) or 'none'}.",
        *_erasure_line(request.target),
        "- Afterwards delete the feed's file and release that (`make deploy`): until then its DAGs do nothing.",
    ]
    return RetirementPreview(services.feed.feed, current.generation, rows, "\n".join(lines))


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
