"""At which task a publish run stands, by what it has left in the state bucket so far: no question to Airflow."""

from __future__ import annotations

from dedup_clone.state.current import CurrentFile, Intent
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


def standing_task(store: ObjectStore, feed: str, run_id: str) -> str:
    """A task of the publish DAG in words, such as `task [dedup_snapshot]`."""
    intent = CurrentFile(store, feed).read().intent
    if intent is None:
        return "task [resolve_publish] or after its end: it holds no lease"
    if intent.run_id != run_id:
        return f"task [resolve_publish]: run [{intent.run_id}] of [{intent.dag_id}] holds the lease"
    return f"task [{_task(store, FeedLayout(feed), intent)}]"


def _task(store: ObjectStore, layout: FeedLayout, intent: Intent) -> str:
    candidate, swap_order = layout.candidate(intent.attempt), layout.swap_order(intent.attempt)
    there = {info.name for info in store.stat([candidate, swap_order])}
    if any("-swap-" in job for job in intent.jobs):
        return "swap_target] or [commit_generation"
    if swap_order in there:
        return "approve_accepted" if intent.waits_for_approval else "swap_target"
    if any("-load-" in job for job in intent.jobs):
        return "load_staging] or [check_staging"
    return "load_staging" if candidate in there else "dedup_snapshot"
