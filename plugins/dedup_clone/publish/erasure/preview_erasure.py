"""Describes what an erasure would delete, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.billing import GIB
from dedup_clone.contract.erasure import KeysToErase
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.date_ranges import MAX_RANGE_DAYS, format_dates
from dedup_clone.publish.erasure.key_hashes import key_parameters
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest, read_keys, require_erasable
from dedup_clone.publish.lease import require_own_feed
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog

COUNT_SQL_FILE = "erasure/count_rows.sql"


@dataclass(frozen=True)
class ErasurePreview:
    """What an erasure would delete. `keys`: their number. `text`: for the operator.

    `rows`: the number of live rows with one of the keys, by date; None if the rows were not counted.
    """

    feed: str
    live_generation: int
    keys: int
    rows: dict[date, int] | None
    text: str


def preview_erasure(services: Services, erasure_request: ErasureRequest, count_limit_bytes: int) -> ErasurePreview:
    """Describe the erasure. The rows are counted by a query if it would read at most `count_limit_bytes`.

    Raises what `require_own_feed`, `require_erasable` and `read_keys` raise, and JobFailed.
    """
    require_own_feed(services)
    live, keys = require_erasable(services), read_keys(services, erasure_request.keys_file)
    size, rows = _count(services, keys, count_limit_bytes)
    waiting = ", ".join(d.name for d in find_backlog(services, live).apply) or "none"
    readable_until = services.now() + services.warehouse.time_travel_window()
    found = (
        f"The rows with these keys were not counted: the query would read {size / GIB:.1f} GiB, more than the form "
        f"allows."
        if rows is None
        else f"**{sum(rows.values())} rows** of generation {live.generation} have these keys, on: {format_dates(rows)}."
    )
    lines = [
        f"**{services.feed.feed}: erase {len(keys.rows)} keys, given by "
        f"{', '.join(column.name for column in keys.columns)}**",
        "",
        f"- {found}",
        "- A new generation without them is published. Data files, requests, check results and examples of all earlier "
        "generations are deleted: **no rollback can restore a generation before this erasure**.",
        *_changes_line(services),
        f"- BigQuery's time travel has the rows until about {readable_until:%Y-%m-%d %H:%M} UTC.",
        "- Snapshots that still contain the keys, replayed ones too, do not bring them back. Once the newest snapshot "
        "lacks a key, later ones may. Delete the keys at the producer, and in landing.",
        f"- Deliveries that wait now: {waiting}. They are published afterwards, without these keys.",
    ]
    return ErasurePreview(services.feed.feed, live.generation, len(keys.rows), rows, "\n".join(lines))


def _count(services: Services, keys: KeysToErase, limit_bytes: int) -> tuple[int, dict[date, int] | None]:
    """The bytes that the query reads, and the rows by date; None instead of rows if it would read too much."""
    table = replace(services.feed.table.to_contract(), columns=keys.columns)
    sql = services.warehouse.render(COUNT_SQL_FILE, names=services.names, table=table)
    parameters = {**key_parameters(keys), "retention_day": ("DATE", services.retention_window()[0].isoformat())}
    configuration = query_configuration(services, "preview", sql, parameters)
    size = services.warehouse.jobs.dry_run_select_bytes(configuration)
    if size > limit_bytes:
        return size, None
    found = services.warehouse.jobs.select(configuration, max_rows=MAX_RANGE_DAYS)
    return size, {row["found_day"]: row["found_rows"] for row in found.first_rows}


def _changes_line(services: Services) -> list[str]:
    name = services.names.changes_table
    if services.warehouse.table(name) is None:
        return []
    return [
        f"- Rows with these keys are also deleted from [{name}], by a query that reads its key columns. Changes of "
        f"earlier generations that wait to be loaded into it are deleted, all of them."
    ]
