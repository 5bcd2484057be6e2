"""The Airflow asset of a feed's target, and the Asset event that each commit emits."""

from __future__ import annotations

from airflow.providers.common.compat.lineage.entities import File
from airflow.sdk import Asset, AssetAlias

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun
from dedup_clone.state.ledger import LedgerRecord

EVENT_FIELDS = (
    *("snapshot_id", "deliveries", "generation", "restores", "arrived_at", "swapped_at", "lag_s"),
    *("rows", "new_rows", "changed_rows", "kept_rows"),
)
ANY_TARGET = AssetAlias("dedup_clone_targets")  # the outlet of a DAG that serves all feeds


def target_outlet(setup: FeedSetup | FeedOfForm) -> Asset | AssetAlias:
    return target_asset(setup) if isinstance(setup, FeedSetup) else ANY_TARGET


def landing_folder(setup: FeedSetup) -> File:
    """What a publish reads, for lineage. No Asset: Airflow lets no task run while another Asset has its URI, too."""
    return File(f"gs://{setup.deployment.landing_bucket}/{setup.feed.landing.prefix}")


def emit_event(run: FeedRun, record: LedgerRecord) -> None:
    """Emits the event of the feed's asset for a ledger record, by way of the alias if the DAG serves all feeds."""
    plain = to_plain(record)
    extra = {name: plain[name] for name in EVENT_FIELDS}
    asset, events = target_asset(run.setup), run.context["outlet_events"]
    if ANY_TARGET in run.context["task"].outlets:
        events[ANY_TARGET].add(asset, extra)
    else:
        events[asset].extra = extra


def target_asset(setup: FeedSetup) -> Asset:
    names, feed = setup.names, setup.feed
    return Asset(
        name=f"{names.dataset}.{names.target_table}",
        uri=f"bigquery://{names.project}/{names.dataset}/{names.target_table}",
        extra={"description": feed.description, "owner": feed.owner},
    )
