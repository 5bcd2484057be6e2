"""Describes what a rollback would change, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateEntry, Manifest
from dedup_clone.publish.check import check_before_dedup
from dedup_clone.publish.lease import require_own_feed
from dedup_clone.publish.previews.date_difference import changes_between, describe_difference
from dedup_clone.publish.rollback.resolve_rollback import RestorableGeneration, find_restorable
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import excluded_after, find_backlog
from dedup_clone.state.current import lease_held_error

DATES_LISTED = 10


@dataclass(frozen=True)
class RollbackPreview:
    """What a rollback would change. `text` is Markdown for the operator; the numbers are for programs."""

    feed: str
    live_generation: int
    restored_generation: int
    live_rows: int
    restored_rows: int
    differing_dates: int
    text: str


def preview_rollback(services: Services, generation: int, *, dag_id: str, run_id: str) -> RollbackPreview:
    """Describe what a rollback to `generation` by this run would do.

    Raises LeaseHeld while another run is at work, because what that run publishes would change the preview;
    ConfigurationError when the generation cannot be restored; FeedHeldElsewhere; CheckFailed if a check of the tables,
    which run again before the swap, fails.
    """
    _require_no_other_run(services, dag_id, run_id)
    restorable = find_restorable(services, generation)
    live_generation = services.current.read().generation
    if live_generation is None:  # cannot happen: a restorable generation means that another is live
        raise LookupError(f"[{services.feed.feed}] has no live generation: publish a snapshot first.")
    check_before_dedup(services, live_generation, with_sql=False)
    live, restored = services.manifests.read(live_generation), restorable.manifest
    dates = _differing(live, restored)
    return RollbackPreview(
        feed=services.feed.feed,
        live_generation=live.generation,
        restored_generation=restored.generation,
        live_rows=live.rows,
        restored_rows=restored.rows,
        differing_dates=len(dates),
        text=_text(services, restorable, live, dates),
    )


def _require_no_other_run(services: Services, dag_id: str, run_id: str) -> None:
    intent = require_own_feed(services).intent
    if intent is None or intent.waits_for_approval or intent.is_of(dag_id=dag_id, run_id=run_id):
        return
    if not services.is_running(intent.dag_id, intent.run_id):
        return
    raise lease_held_error(services.feed.feed, intent)


def _differing(live: Manifest, restored: Manifest) -> list[tuple[DateEntry | None, DateEntry | None]]:
    """Dates whose rows or files differ, or may differ because an engine wrote no files, newest first.

    Pairs (live, restored); None if a generation lacks the date.
    """
    now, then = {e.date: e for e in live.dates}, {e.date: e for e in restored.dates}
    pairs = [(now.get(day), then.get(day)) for day in sorted({*now, *then}, reverse=True)]
    return [(a, b) for a, b in pairs if a is None or b is None or not a.files_digest or _identity(a) != _identity(b)]


def _identity(entry: DateEntry) -> tuple[object, ...]:
    """What is equal for two generations if they have the same files of the date."""
    return entry.rows, entry.min_update_id, entry.max_update_id, entry.files_digest


def _text(
    services: Services,
    restorable: RestorableGeneration,
    live: Manifest,
    dates: list[tuple[DateEntry | None, DateEntry | None]],
) -> str:
    restored = restorable.manifest
    excluded = set(excluded_after(services, live, restored)) - set(live.excluded)
    released = set(live.excluded) - set(excluded_after(services, live, restored))
    waiting = [d.name for d in find_backlog(services, live).apply]
    differ = "differ" if all(e.files_digest for e in (*live.dates, *restored.dates)) else "differ or may differ"
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
        f"- Excluded until somebody replays them or they are delivered again: {_names(excluded)}.",
        f"- No longer excluded: {_names(released)}.",
        f"- The next arrival builds on the restored rows. Waiting now: {', '.join(waiting) or 'none'}.",
        "",
        f"{len(dates)} of {len({e.date for e in (*live.dates, *restored.dates)})} dates {differ}; "
        f"{restored.rows - live.rows:+d} rows in all. {changes_between(services, live, restored)}",
    ]
    if restored.generation == live.generation:
        lines.insert(
            4, "- This generation is live: the rollback undoes what somebody changed in target since its swap."
        )
    if dates:
        lines += [
            "",
            "| date | rows now | rows after | more or fewer | what differs |",
            "| --- | --- | --- | --- | --- |",
        ]
        comparable = live.table.columns == restored.table.columns
        lines += [_row(a, b, comparable) for a, b in dates[:DATES_LISTED]]
        more = len(dates) - DATES_LISTED
        lines += [f"| and {more} more | | | | |"] if more > 0 else []
        uris = [services.store.uri(services.layout.manifest(m.generation)) for m in (live, restored)]
        lines += ["", f"All dates: `dates` in {uris[0]} (now) and {uris[1]} (after)."]
    return "\n".join(lines)


def _row(live: DateEntry | None, restored: DateEntry | None, values_are_comparable: bool) -> str:
    entry = live or restored
    now, then = live.rows if live else 0, restored.rows if restored else 0
    what = describe_difference(live, restored, values_are_comparable=values_are_comparable)
    rows = f"{now if live else 'none'} | {then if restored else 'none'} | {then - now:+d}"
    return f"| {entry.date if entry else ''} | {rows} | {what} |"


def _names(deliveries: set[Delivery]) -> str:
    return ", ".join(sorted(d.name for d in deliveries)) or "none"
