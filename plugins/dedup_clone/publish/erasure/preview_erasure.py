"""Describes what an erasure would delete, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.erasure import KeysToErase
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.date_ranges import MAX_RANGE_DAYS, format_dates
from dedup_clone.publish.erasure.key_hashes import key_parameters
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest, read_keys, require_erasable
from dedup_clone.publish.records.publish_costs import size_text
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import waiting_names

COUNT_SQL_FILE = "erasure/count_rows.sql"


def preview_erasure(services: Services, erasure_request: ErasureRequest, count_limit_bytes: int) -> str:
    """What the erasure would do, as Markdown. A query counts the rows if it would read at most `count_limit_bytes`.

    Raises what `CurrentFile.read_for`, `require_erasable` and `read_keys` raise, and JobFailed.
    """
    services.current.read_for(services.environment)
    live, keys = require_erasable(services), read_keys(services, erasure_request.keys_file)
    readable_until = services.now() + services.warehouse.time_travel_window()
    lines = [
        f"**{services.feed.feed}: erase {len(keys.rows)} keys, given by "
        f"{', '.join(column.name for column in keys.columns)}**",
        "",
        f"- Rows of generation {live.generation} with these keys: {_count(services, keys, count_limit_bytes)}.",
        "- A new generation without them is published. Data files, requests, check results and examples of all earlier "
        "generations are deleted: **no rollback can restore a generation before this erasure**.",
        *_changes_line(services),
        f"- BigQuery's time travel has the rows until about {readable_until:%Y-%m-%d %H:%M} UTC.",
        "- Snapshots that still contain the keys, replayed ones too, do not bring them back. Once the newest snapshot "
        "lacks a key, later ones may. Delete the keys at the producer, and in landing.",
        f"- Deliveries that wait now: {waiting_names(services, live)}. They are published afterwards, without these "
        f"keys.",
    ]
    return "\n".join(lines)


def _count(services: Services, keys: KeysToErase, limit_bytes: int) -> str:
    """How many rows have the keys, and on which dates, as text."""
    table = replace(services.feed.table.to_contract(), columns=keys.columns)
    sql = services.warehouse.render(COUNT_SQL_FILE, names=services.names, table=table)
    parameters = {**key_parameters(keys), "retention_day": ("DATE", services.retention_window()[0].isoformat())}
    configuration = query_configuration(services, "preview", sql, parameters)
    size = services.warehouse.jobs.dry_run_select_bytes(configuration)
    if size > limit_bytes:
        return f"not counted, because the query would read {size_text(size)}, more than the form allows"
    found = services.warehouse.jobs.select(configuration, max_rows=MAX_RANGE_DAYS).first_rows
    return f"**{sum(row['found_rows'] for row in found)}**, on: {format_dates(row['found_day'] for row in found)}"


def _changes_line(services: Services) -> list[str]:
    name = services.names.changes_table
    if services.warehouse.table(name) is None:
        return []
    return [
        f"- Rows with these keys are also deleted from [{name}], by a query that reads its key columns. Changes of "
        f"earlier generations that wait to be loaded into it are deleted, all of them."
    ]
