"""Erasure: a new generation without the rows of the named keys, and no trace of them in earlier ones.

The new generation is loaded, checked and swapped in like any other, so readers see one change. The last task deletes
what may still contain the keys, and the file that names them.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from dedup_clone.checks.check_result import require_no_failure
from dedup_clone.contract.attempt import Attempt, Kind, Plan
from dedup_clone.contract.delivery import INT64_MAX
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.erasure import Erasure, KeysToErase, parse_keys
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import NUMERIC_CONTEXT, NUMERIC_PRECISION, NUMERIC_SCALE
from dedup_clone.publish import changes_table
from dedup_clone.publish.attempt_jobs import COUNT_LIMIT, count_by_date, query_configuration, run_step_job
from dedup_clone.publish.attempts import Form, begin_attempt, write_attempt
from dedup_clone.publish.changes_table import forget_change_rows
from dedup_clone.publish.commit import prune
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.declared_form import drop_once, prepare_staging, refuse_impossible_changes
from dedup_clone.publish.early_checks import NOT_DEDUPLICATED, check_before_dedup, find_previous
from dedup_clone.publish.erasure_records import complete_certificate, erasure_of_run, erasure_uris, record_tables
from dedup_clone.publish.parent_generation import live_manifest, parent_files, require_readable_parent
from dedup_clone.publish.publish_costs import size_text
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.reporting import stop_load
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services
from dedup_clone.state.layout import names_up_to
from dedup_clone.state.ledger import CHANGES, ReportingBacklog
from dedup_clone.state.store import StoredText

COUNT_SQL_FILE = "erasure/count_rows.sql"
DELETE_SQL_FILE = "erasure/delete_changes.sql"
DELETE_STEP = "erase_changes"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GREATEST_NUMERIC = Decimal(10**NUMERIC_PRECISION - 1).scaleb(-NUMERIC_SCALE, NUMERIC_CONTEXT)


@dataclass(frozen=True, kw_only=True)
class ErasureRequest(Form):
    """The form of an erasure run. `keys_file`: the name of the file in the feed's folder `to_erase/` in state."""

    keys_file: str


def preview(services: Services, request: ErasureRequest) -> tuple[int, str]:
    """The object generation of the file of keys, and as Markdown what the erasure would do."""
    live, uploaded = _require_erasable(services), _find_keys(services, request.keys_file)
    keys = _parse(services, uploaded)
    readable_until = services.now() + services.warehouse.time_travel_window()
    changes = services.names.changes_table
    lines = [
        f"**{services.feed.feed}: erase {len(keys.rows)} keys, given by "
        f"{', '.join(column.name for column in keys.columns)}**",
        "",
        f"- Rows of generation {live.generation} with these keys: {_count(services, keys)}.",
        "- A new generation without them is published. Data files, requests, check results and examples of all earlier "
        "generations are deleted: **no rollback can restore a generation before this erasure**.",
        f"- BigQuery's time travel has the rows until about {readable_until:%Y-%m-%d %H:%M} UTC.",
        "- Snapshots that still contain the keys, replayed ones too, do not bring them back. Once the newest snapshot "
        "lacks a key, later ones may. Delete the keys at the producer, and in landing.",
        f"- Deliveries that wait now: {waiting_names(services, live)}. They are published afterwards, without these "
        f"keys.",
    ]
    if services.warehouse.table(changes) is not None:
        lines.append(
            f"- Rows with these keys are also deleted from [{changes}], by a query that reads its key columns. Changes "
            f"of earlier generations that wait to be loaded into it are deleted, all of them."
        )
    return uploaded.object_generation, "\n".join(lines)


def prepare(services: Services, request: ErasureRequest, keys_shown: int) -> Attempt:
    """Recover a dead run, acquire the lease, prepare staging, copy the keys, write the attempt.

    Raises ConfigurationError if the file of keys is another than `preview` returned. From then on it may be replaced.
    """
    uploaded = _find_keys(services, request.keys_file)
    if uploaded.object_generation != keys_shown:
        raise ConfigurationError(
            f"The file of keys [{request.keys_file}] was replaced since it was shown. Nothing was changed: trigger the "
            f"DAG again to see what it would erase now."
        )
    recover(services, request)
    live = _require_erasable(services)
    attempt = begin_attempt(services, request, Kind.ERASE, live.generation, snapshot_id=live.snapshot_id)
    prepare_staging(services)  # the new generation has the columns that the feed file declares by now
    approved = services.layout.approved_keys(attempt.id)
    services.store.put(approved, uploaded.text)
    attempt = replace(
        attempt,
        plan=Plan.AUTO,
        folded=live.deliveries,
        excluded=live.excluded,
        parent_files=parent_files(services, attempt, live),
        erasures=erasure_uris(services, live.generation),
        erases=services.store.uri(approved),
    )
    write_attempt(services, attempt, f"erases the keys of [{attempt.erases}]")
    return attempt


def after_commit(services: Services, request: ErasureRequest, attempt: Attempt) -> list[str]:
    """Delete what the commit of the erasure left, and record in the erasure's record that this was done.

    What is deleted: the keys' rows in `FEED_changes`, the folders of earlier generations (with check results, which
    have examples of keys), their incoming tables, `FEED_previous`, and the file of keys.

    Returns the deleted folders; none if an earlier try has deleted them. Safe to repeat. Raises ContractViolation if
    the run has committed no erasure.
    """
    erasure = erasure_of_run(services, request.run_id)
    if erasure is None:
        raise ContractViolation(
            f"Run [{request.run_id}] has no record in [{services.store.uri(services.layout.erasures)}], so it "
            f"has erased nothing: clear the run from its first task."
        )
    folders: list[str] = []
    approved = services.layout.approved_keys(erasure.attempt)
    found = services.store.read(approved)
    if not erasure.deleted_at:
        found = found or _find_keys(services, request.keys_file)  # a later erasure deletes the copies of earlier ones
        change_rows = _erase_changes(services, erasure, _parse(services, found))
        folders = prune(services)
        incoming = incoming_tables(services, before=erasure.generation)
        previous = find_previous(services, before=erasure.generation)
        changes = [] if change_rows is None else [services.names.changes_table]
        record_tables(services, erasure.generation, [*incoming, *previous, *changes])
        for table in incoming:
            services.warehouse.alterations.drop(table)
        for table in previous:
            drop_once(services, erasure.attempt, "drop_previous", table)
        complete_certificate(services, erasure.generation, deleted=folders, change_rows=change_rows)
    name = services.layout.keys_to_erase(request.keys_file)
    uploaded = services.store.read(name)
    if found and uploaded and uploaded.text == found.text:  # else somebody has uploaded the keys of another erasure
        services.store.delete(name, expected_object_generation=uploaded.object_generation)
    services.store.delete_prefix(approved)
    services.log(f"deleted {len(folders)} folders of earlier generations, and the file of keys")
    return folders


def drop_pending_changes(services: Services, *, before: int) -> None:
    """Delete the changes of generations below `before` that were not loaded into `FEED_changes` yet.

    The files are deleted first, so that a job that another task starts afterwards fails. Then the function waits for
    a job that is loading the files already.
    """
    backlog, feed = ReportingBacklog(services.store, CHANGES), services.feed.feed
    attempts = [waiting.attempt for waiting in backlog.waiting(feed)]
    for name in names_up_to(services.store.folders(services.layout.changes), before - 1):
        services.store.delete_prefix(name)
    for attempt in names_up_to(attempts, before - 1):
        stop_load(services, feed, attempt, changes_table.STEP)
        backlog.remove(feed, attempt)


def incoming_tables(services: Services, *, before: int) -> list[str]:
    """The incoming tables of attempts at generations below `before`, as far as they are left.

    No attempt at a lower generation needs its table any more: an attempt gets its generation with the lease.
    """
    prefix = services.names.of_attempt("").incoming_table
    attempts = [name.removeprefix(prefix) for name in services.warehouse.list_tables(prefix)]
    of_attempts = [attempt for attempt in attempts if "-" in attempt]  # else it is a feed's table
    return [services.names.of_attempt(attempt).incoming_table for attempt in names_up_to(of_attempts, before - 1)]


def key_text(keys: KeysToErase, row: tuple[Any, ...]) -> str:
    """The text of a key; the SQL of `warehouse/row_sql.py` gives the same text in BigQuery."""
    return "".join(f"1{_value_text(column.type, value)}" for column, value in zip(keys.columns, row, strict=True))


def _require_erasable(services: Services) -> Manifest:
    """The live generation's manifest. Raises what says that no erasure could be built on it."""
    feed, live = services.feed, live_manifest(services, "erase")
    if feed.engine is not Engine.SPARK:
        raise ConfigurationError(
            f"Feed [{feed.feed}] has engine [{feed.engine}], which does not support erasures: set "
            f"[engine: {Engine.SPARK}] in the feed file, then erase."
        )
    refuse_impossible_changes(services, Engine.SPARK, live)
    require_no_failure(check_before_dedup(services, live.generation, Kind.ERASE), NOT_DEDUPLICATED)
    require_readable_parent(services, live, Engine.SPARK)
    return live


def _find_keys(services: Services, keys_file: str) -> StoredText:
    """The uploaded file of keys. Raises ConfigurationError if it is absent."""
    name = services.layout.keys_to_erase(keys_file)
    stored = services.store.read(name) if keys_file else None
    if stored is None:
        raise ConfigurationError(
            f"There is no file of keys [{services.store.uri(name)}]: upload it, and name it in the form without its "
            f"folder (docs/feeds.md, erase keys)."
        )
    return stored


def _parse(services: Services, keys: StoredText) -> KeysToErase:
    """The keys of the file. Raises ConfigurationError if it is malformed."""
    return parse_keys(keys.text, services.feed.table.to_contract())


def _count(services: Services, keys: KeysToErase) -> str:
    """How many rows have the keys, and on which dates, as text."""
    parameters = {**_key_parameters(keys), "retention_day": ("DATE", services.retention_window()[0].isoformat())}
    found, size = count_by_date(services, _sql(services, COUNT_SQL_FILE, keys), parameters)
    if found is None:
        return f"not counted, because the query would read {size_text(size)}, more than {size_text(COUNT_LIMIT)}"
    return f"**{sum(found.values())}**, on: {format_dates(found)}"


def _erase_changes(services: Services, erasure: Erasure, keys: KeysToErase) -> int | None:
    """Delete the keys' rows of earlier generations from `FEED_changes`, and such changes that were not loaded yet.

    Rows of later generations are of keys that the producer has made again. The ledger table then has no `change_rows`
    for generations before the erasure. Returns how many rows were deleted; None if the feed has no `FEED_changes`. Safe
    to repeat.
    """
    drop_pending_changes(services, before=erasure.generation)
    forget_change_rows(services, erasure.attempt, last=erasure.generation - 1)
    if services.warehouse.table(services.names.changes_table) is None:
        return None
    sql = _sql(services, DELETE_SQL_FILE, keys)
    parameters = {**_key_parameters(keys), "generation": ("INT64", str(erasure.generation))}
    query = query_configuration(services, DELETE_STEP, sql, parameters)
    return run_step_job(services, erasure.attempt, DELETE_STEP, lambda: query, is_recorded=False).changed_rows


def _sql(services: Services, file: str, keys: KeysToErase) -> str:
    table = services.feed.table.to_contract()
    named = replace(table, columns=keys.columns)
    return services.warehouse.render(file, names=services.names, table=table, named=named)


def _key_parameters(keys: KeysToErase) -> dict[str, tuple[str, str]]:
    """The parameters `salt` and `digests` of a query, with a new salt, so that no query names a key."""
    salt = secrets.token_hex(16)
    digests = [hashlib.sha256(f"{salt}{key_text(keys, row)}".encode()).hexdigest() for row in keys.rows]
    return {"salt": ("STRING", salt), "digests": ("STRING", ",".join(digests))}


def _value_text(kind: str, value: Any) -> str:
    match kind:
        case "DATE":
            return _value_text("INT64", (value - _EPOCH.date()).days)
        case "DATETIME":
            return _value_text("TIMESTAMP", value.replace(tzinfo=UTC))
        case "TIMESTAMP":
            return _value_text("INT64", (value - _EPOCH) // timedelta(microseconds=1))
        case "NUMERIC":
            digits = NUMERIC_CONTEXT.add(_GREATEST_NUMERIC, value) if value < 0 else value.copy_abs()
            return f"{value >= 0:d}{digits:0{NUMERIC_PRECISION + 1}.{NUMERIC_SCALE}f}".replace(".", "")
        case "STRING":
            return f"{value.encode().hex()} "
        case "BYTES":
            return f"{value.hex()} "
        case "INT64":
            return f"{value >= 0:d}{value & INT64_MAX:019}"
    return f"{value:d}"  # BOOL
