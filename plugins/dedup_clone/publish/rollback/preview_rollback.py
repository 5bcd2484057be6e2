"""Describes what a rollback would change, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import DateEntry, Manifest
from dedup_clone.publish.check import check_before_dedup
from dedup_clone.publish.rollback.resolve_rollback import RestorableGeneration, find_restorable
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import excluded_after, waiting_names
from dedup_clone.state.current import Current, lease_held_error

DATES_LISTED = 10


def preview_rollback(services: Services, generation: int, *, dag_id: str, run_id: str) -> tuple[int, str]:
    """The live generation, and as Markdown what a rollback to `generation` by this run would do.

    Raises LeaseHeld while another run is at work, because what that run publishes would change the preview;
    ConfigurationError when the generation cannot be restored; FeedHeldElsewhere; CheckFailed if a check of the tables,
    which run again before the swap, fails.
    """
    current = services.current.read_for(services.environment)
    _require_no_other_run(services, current, dag_id, run_id)
    if current.generation is None:
        raise ConfigurationError(f"[{services.feed.feed}] has no live generation: publish a snapshot first.")
    restorable = find_restorable(services, generation)
    check_before_dedup(services, current.generation, with_sql=False)
    live = services.manifests.read(current.generation)
    return current.generation, "\n".join([*_summary(services, restorable, live), *_dates(live, restorable.manifest)])


def _require_no_other_run(services: Services, current: Current, dag_id: str, run_id: str) -> None:
    intent = current.intent
    if intent is None or intent.waits_for_approval or intent.is_of(dag_id=dag_id, run_id=run_id):
        return
    if services.is_running(intent.dag_id, intent.run_id):
        raise lease_held_error(services.feed.feed, intent)


def _summary(services: Services, restorable: RestorableGeneration, live: Manifest) -> list[str]:
    restored = restorable.manifest
    excluded_now, excluded_then = set(live.excluded), set(excluded_after(services, live, restored))
    how = (
        f"a clone of staging as it was at {restorable.restored_at:%Y-%m-%d %H:%M:%S} UTC"
        if restorable.restored_at
        else "a load of the generation's files"
    )
    lines = [
        f"**{services.feed.feed}: from generation {live.generation} to the content of {restored.generation}**",
        "",
        f"- Readers see snapshot {live.snapshot_id} now ({live.rows} rows). After the rollback they see snapshot "
        f"{restorable.snapshot_id} ({restored.rows} rows), published at {restorable.swapped_at:%Y-%m-%d %H:%M:%S} UTC.",
        f"- It is restored by {how}, and swapped in one statement.",
        f"- Excluded until somebody replays them or they are delivered again: {_names(excluded_then - excluded_now)}.",
        f"- No longer excluded: {_names(excluded_now - excluded_then)}.",
        f"- The next arrival builds on the restored rows. Waiting now: {waiting_names(services, live)}.",
    ]
    if restored.generation == live.generation:
        lines.append("- This generation is live: the rollback undoes what somebody changed in target since its swap.")
    return lines


def _dates(live: Manifest, restored: Manifest) -> list[str]:
    """How many dates differ, and a table of the newest of them."""
    now, then = {e.date: e for e in live.dates}, {e.date: e for e in restored.dates}
    days = sorted({*now, *then}, reverse=True)
    different = [day for day in days if _may_differ(now.get(day), then.get(day))]
    lines = [
        "",
        f"{len(different)} of {len(days)} dates differ, or may differ because an engine in SQL wrote no files; "
        f"{restored.rows - live.rows:+d} rows in all.",
    ]
    if not different:
        return lines
    lines += ["", "| date | rows now | rows after |", "| --- | --- | --- |"]
    lines += [f"| {day} | {_rows(now, day)} | {_rows(then, day)} |" for day in different[:DATES_LISTED]]
    more = len(different) - DATES_LISTED
    return [*lines, f"| and {more} more | | |"] if more > 0 else lines


def _may_differ(live: DateEntry | None, restored: DateEntry | None) -> bool:
    """Whether the rows or files of a date differ, or may differ because an engine in SQL wrote no files."""
    if live is None or restored is None or not live.files_digest:
        return True
    return _identity(live) != _identity(restored)


def _identity(entry: DateEntry) -> tuple[object, ...]:
    """What is equal for two generations if they have the same files of the date."""
    return entry.rows, entry.min_update_id, entry.max_update_id, entry.files_digest


def _rows(entries: dict[date, DateEntry], day: date) -> str:
    return str(entries[day].rows) if day in entries else "none"


def _names(deliveries: Iterable[Delivery]) -> str:
    return ", ".join(sorted(delivery.name for delivery in deliveries)) or "none"
