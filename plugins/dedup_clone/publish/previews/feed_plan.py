"""Compares a feed file with its published table: what the next publish does, what it costs, and what would stop it.

Reads state and the metadata of tables; changes nothing and acquires no lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.billing import GIB
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import added_columns, relaxed_columns, widened_columns
from dedup_clone.contract.table_rebuild import needs_rebuild, rebuild_problems
from dedup_clone.publish.check import results_before_dedup
from dedup_clone.publish.planning.declared_changes import lost_dates, refusals, shortens_retention
from dedup_clone.publish.planning.parent_generation import unreadable_parent
from dedup_clone.publish.previews.option_changes import option_changes
from dedup_clone.publish.previews.planned_change import NO_COST, PlannedChange
from dedup_clone.publish.previews.setting_changes import setting_changes
from dedup_clone.publish.rebuild.rebuild_plan import RebuildRequest, copy_bytes
from dedup_clone.publish.records.publish_costs import expected_cost, usd_on_demand, with_expected_stream
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.state.index import published_records
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.warehouse.metadata import TableMetadata


@dataclass(frozen=True)
class FeedPlan:
    """How one feed file differs from its published table. `live_generation`: None before the first publish.

    `problems`: why the next publish is refused, with the next step. `notes`: what may stop a later publish.
    `approvable`: whether one of the problems is a shorter retention, which an operator may approve. `waiting`:
    deliveries that the next publish would include. `is_compared`: False if the feed file or a record in state cannot be
    read.
    """

    feed: str
    live_generation: int | None
    changes: tuple[PlannedChange, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    approvable: bool = False
    waiting: tuple[str, ...] = ()
    is_compared: bool = True


def plan_feed(services: Services) -> FeedPlan:
    """Compare the feed file with the live generation, staging and target.

    Raises ContractViolation for a damaged or lost record, and what `results_before_dedup` raises.
    """
    feed, generation = services.feed, services.current.read().generation
    if services.retired.read() is not None:
        return FeedPlan(feed.feed, None, notes=("the feed is retired: delete its file",))
    live = None if generation is None else services.manifests.read(generation)
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    check_results = results_before_dedup(services, generation)
    failed = [str(result) for result in check_results if result.level is Level.FAIL]
    unreadable = unreadable_parent(services, live, feed.engine)
    published = published_records(services.store, feed.feed)
    shorter = live is not None and staging is not None and shortens_retention(feed.table.retention_days, staging)
    return FeedPlan(
        feed=feed.feed,
        live_generation=generation,
        changes=(
            *_changes(services, live, staging, target),
            *(option_changes(services, live, target) if live else ()),
            *(setting_changes(services, live, staging, published, check_results) if live else ()),
        ),
        problems=(*refusals(services, feed.engine, live, staging), *failed, *([unreadable] if unreadable else [])),
        notes=(*_rebuild_note(services, live), *_notes(services, published)),
        approvable=shorter,
        waiting=tuple(delivery.name for delivery in find_backlog(services, live).apply),
    )


def _changes(
    services: Services, live: Manifest | None, staging: TableMetadata | None, target: TableMetadata | None
) -> Iterator[PlannedChange]:
    feed, contract = services.feed, services.feed.table.to_contract()
    if live is None:
        yield PlannedChange(
            f"table {feed.target} is new", "the first publish makes it and its staging table", "the table appears"
        )
        return
    added = added_columns(live.table.columns, contract.columns)
    if added and not feed.engine.runs_spark:
        yield PlannedChange(
            f"new columns {', '.join(added)}",
            "adds them to staging and target before the query, with NULL in rows of target",
            f"{len(added)} more columns, at first with NULL, no query fails; SELECT * returns them",
        )
    elif added:
        yield PlannedChange(
            f"new columns {', '.join(added)}",
            "adds them, with NULL in rows of files that lack them; all files are written anew once",
            f"{len(added)} more columns from the swap on, no query fails; SELECT * returns them",
            f"the Spark job reads and writes {_live_size(services, live)} more; BigQuery bills nothing",
        )
    yield from _changed_columns(services, live)
    yield from _retention(services, live, staging, target)
    if live.update_id_mode is not feed.update_id_mode:
        yield PlannedChange(
            f"update_id_mode {live.update_id_mode} becomes {feed.update_id_mode}",
            "compares with the files of the live generation, because fingerprints of the other mode are not used",
            f"{contract.snapshot_id_column} of rows that are published from now on follows the new mode",
            f"the Spark job reads {_live_size(services, live)} more",
        )
    if live.engine is not feed.engine:
        yield PlannedChange(
            f"engine {live.engine} becomes {feed.engine}",
            _engine_effect(feed.engine, live),
            "nothing: the rows are the same",
            _query_cost(services, live, staging),
        )


def _engine_effect(engine: Engine, live: Manifest) -> str:
    if not engine.runs_spark:
        return "scans target in BigQuery"
    return "exports the table first, free of charge" if live.data_folder is None else "goes on with the live files"


def _changed_columns(services: Services, live: Manifest) -> Iterator[PlannedChange]:
    before, after = live.table.columns, services.feed.table.to_contract().columns
    cost = f"the Spark job reads and writes {_live_size(services, live)} more; BigQuery bills nothing"
    widened, relaxed = widened_columns(before, after), relaxed_columns(before, after)
    if widened:
        yield PlannedChange(
            f"wider type of columns {', '.join(widened)}",
            "changes staging's type and writes all files anew once; no rollback can restore earlier generations",
            "results of the new type from the swap on; statements that write the former type may fail",
            cost,
        )
    if relaxed:
        yield PlannedChange(
            f"columns {', '.join(relaxed)} may be NULL",
            "lets staging's columns be NULL and writes all files anew once",
            "NULL may appear in them",
            cost,
        )


def _retention(
    services: Services, live: Manifest, staging: TableMetadata | None, target: TableMetadata | None
) -> Iterator[PlannedChange]:
    days, target_days = services.feed.table.retention_days, target.expiration_days if target else None
    if target is None or target_days == days:
        return
    change = f"retention of {'all dates' if target_days is None else f'{target_days:g} days'} becomes {days} days"
    if target_days is not None and days > target_days:
        effect = "keeps dates longer; those that BigQuery has deleted come back only by a snapshot that has them"
        yield PlannedChange(change, effect, "older dates stay; none vanishes", "storage of the dates that stay")
        return
    lost = lost_dates(services, live)
    waits = staging is not None and shortens_retention(days, staging)
    yield PlannedChange(
        change,
        "is refused until the shorter retention is approved" if waits else "drops the dates; the retention is approved",
        f"{len(lost)} dates with {sum(lost.values())} rows vanish"
        + (f", {min(lost)} to {max(lost)}" if lost else "")
        + "; time travel reads them, for seven days at most",
    )


def _rebuild_note(services: Services, live: Manifest | None) -> Iterator[str]:
    """A note, if a publish refuses the changes: whether a rebuild makes them, and what that costs."""
    feed, table = services.feed, services.feed.table.to_contract()
    if live is None or not needs_rebuild(live.table, table):
        return
    problems, size = rebuild_problems(live.table, table, {}), 0
    if not problems and services.warehouse.table(feed.target) is not None:
        try:
            size = copy_bytes(services, live, RebuildRequest("", "", reason=""))
        except ConfigurationError as error:
            problems = [str(error)]
    if problems:
        yield f"{feed.feed}_rebuild cannot make these changes if no column was renamed: {'; '.join(problems)}"
        return
    cost = f"a query that reads {size / GIB:.2f} GiB, about {usd_on_demand(size):.2f} USD on demand"
    yield (
        f"trigger {feed.feed}_rebuild, which makes these changes after your approval. It costs "
        f"{f'{cost} (more if a column was renamed)' if size else 'no query'}, and the Spark job reads and writes "
        f"{_live_size(services, live)}; export and load are free"
    )


def _notes(services: Services, published: Sequence[LedgerRecord]) -> Iterator[str]:
    """Limits of the feed file that a snapshot like the newest published one would exceed, and checks not tried."""
    feed, records = services.feed, [r for r in published if r.kind is Kind.PUBLISH]
    for name, share in records[-1].shares.items() if records else ():
        limit = getattr(feed.checks, f"max_{name}")
        if share > limit:
            yield (
                f"check {name} fails for a snapshot like the newest published one: it had {share:.2%}, "
                f"checks.max_{name} is {limit:.2%}"
            )
    if feed.engine is Engine.CDC and records and records[-1].parent is not None:
        last, limit = records[-1], feed.cdc.max_changed_share
        share = (last.new_rows + (last.changed_rows or 0)) / max(last.rows, 1)
        if share > limit:
            yield (
                f"a snapshot like the newest published one is not streamed but loaded: {share:.2%} of the rows are "
                f"new or changed, cdc.max_changed_share is {limit:.2%}"
            )
    if feed.sql_checks and _has_other_columns(services):
        yield "the queries of SQL checks were not tried, because staging lacks columns of the feed file"


def _has_other_columns(services: Services) -> bool:
    """Whether staging exists, and its columns are not exactly those of the feed file."""
    staging = services.warehouse.table(services.feed.staging)
    return staging is not None and staging.columns != services.feed.table.to_contract().columns


def _live_size(services: Services, live: Manifest) -> str:
    """The stored bytes of the live generation's files, as text."""
    listed = services.manifests.committed_files(live.generation)
    return f"{sum(file.size for file in listed.files) / (1 << 30):.2f} GiB" if listed else "the exported table"


def _query_cost(services: Services, live: Manifest, staging: TableMetadata | None) -> str:
    """What BigQuery will bill for each publish by the feed file's engine, as text."""
    if services.feed.engine is Engine.SPARK or staging is None or not staging.rows:
        return NO_COST
    engine, row_bytes = services.feed.engine, staging.size / staging.rows
    table = services.feed.table.to_contract()
    cost = expected_cost(engine, table, row_bytes, delivered=live.rows, existing=live.rows)
    if engine is not Engine.CDC:
        return f"about {cost.query_usd:.2f} USD on demand for each complete snapshot, from now on"
    records = published_records(services.store, services.feed.feed)
    cost = with_expected_stream(cost, records, staging, max_rows=services.feed.cdc.max_changed_share * live.rows)
    return f"about {cost.stream_usd:.2f} USD on demand to stream and apply each snapshot's changes, from now on"
