"""Compares a feed file with its published table: what differs, what that means, and what stops the next publish.

Reads state and the metadata of tables; changes nothing and acquires no lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import (
    added_columns,
    needs_rebuild,
    rebuild_problems,
    relaxed_columns,
    widened_columns,
)
from dedup_clone.contract.table import TableContract, column_paths
from dedup_clone.operations.rebuild import copy_bytes
from dedup_clone.publish.attempts import find_check_results, find_swap
from dedup_clone.publish.changes_table import change_rows_to_lose
from dedup_clone.publish.declared_form import lost_dates, refusals, staging_options, swap_options
from dedup_clone.publish.early_checks import check_before_dedup, swap_way
from dedup_clone.publish.parent_generation import unreadable_parent
from dedup_clone.publish.publish_costs import price_text
from dedup_clone.publish.services import Services
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import (
    KMS_KEY,
    MAX_STALENESS,
    PARTITION_FILTER,
    column_entry,
    staleness_text,
    without_removed_columns,
)

NO_VALUE = "none"
# What a difference means, by the name of the setting. Other settings have no consequence but the new value.
CONSEQUENCES = {
    "update_id_mode": "rows that are published from now on follow it, and the next Spark job reads all live files once",
    "absent_keys": "delete removes each key that the next snapshot lacks on a date that it has; keep brings none back",
    "absent_dates": "delete removes each date that the next snapshot lacks; keep brings none back",
    "changes": "if true, a publish adds the rows that it changes to FEED_changes, and reads dates with differences "
    "two more times",
    "changes_days": "older changes expire",
    "publish.swap": "copy loads each generation twice, and a rollback then needs its files",
    PARTITION_FILTER: "if true, queries without a filter on the partition column fail from the next swap on",
    KMS_KEY: "a key encrypts staging, and target from the next swap on; none is taken away from them",
    MAX_STALENESS: "BigQuery applies streamed rows more often the smaller it is, and bills each time",
}


@dataclass(frozen=True)
class FeedPlan:
    """How one feed file differs from its published table.

    `live`: what is published. `changes`: the differences. `problems`: why the next publish is refused, with the next
    step. `notes`: what else may matter.
    """

    feed: str
    live: str
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Markdown, for a terminal or a pull request."""
        lines = [f"- {change}" for change in self.changes]
        lines += [f"- **Problem**: {problem}" for problem in self.problems]
        if not lines:
            lines = ["- nothing to do"]
        return "\n".join([f"**{self.feed}** ({self.live})", "", *lines, *(f"- Note: {n}" for n in self.notes), ""])


def plan_feed(services: Services) -> FeedPlan:
    """Compare the feed file with the live generation, staging and target.

    Raises ContractViolation for a damaged or lost record.
    """
    feed, current = services.feed, services.current.read()
    generation = current.generation
    if current.retired is not None:
        return FeedPlan(feed.feed, "retired", notes=("delete the feed's file",))
    live = None if generation is None else services.manifests.read(generation)
    results = check_before_dedup(services, generation, Kind.PUBLISH).items
    unreadable = unreadable_parent(services, live, feed.engine)
    problems = (
        *refusals(services, feed.engine, live, services.warehouse.table(feed.staging)),
        *(str(result) for result in results if result.level is Level.FAIL),
        *([unreadable] if unreadable else []),
    )
    if live is None:
        return FeedPlan(feed.feed, "never published", (f"table {feed.target} is new",), problems)
    attempts = services.ledger.recent(current.last_generation)
    published = [record for record in attempts if record.outcome is Outcome.PUBLISHED]
    return FeedPlan(
        feed=feed.feed,
        live=f"generation {live.generation} is live",
        changes=tuple(_changes(services, live, results, published)),
        problems=problems,
        notes=tuple(_notes(services, live)),
    )


def _changes(
    services: Services, live: Manifest, results: Sequence[CheckResult], published: Sequence[LedgerRecord]
) -> Iterator[str]:
    """The settings that differ, each with its consequence if it has one."""
    # Before the dedup a query is only estimated: `found` says how many bytes it would read.
    estimates = [f"{r.check}: {r.found}" for r in results if r.check.startswith(SQL_CHECK_PREFIX)]
    consequences = {
        **CONSEQUENCES,
        **_consequences_for_columns(live, services.feed.table.to_contract()),
        "engine": "the rows are the same; docs/costs-and-limits.md says what each engine costs",
        "retention_days": _lost_by_retention(services, live),
        "checks.sql": "; ".join(estimates),
    }
    for name, declared, found in _settings(services, live, published):
        if declared != found:
            consequence = consequences.get(name)
            yield f"{name} is [{declared}], it was [{found}]" + (f": {consequence}" if consequence else "")


Settings = Iterator[tuple[str, str, str]]  # name, the declared value, the published value


def _settings(services: Services, live: Manifest, published: Sequence[LedgerRecord]) -> Settings:
    feed, table = services.feed, services.feed.table.to_contract()
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    yield "engine", str(feed.engine), str(live.engine)
    yield "update_id_mode", str(feed.update_id_mode), str(live.update_id_mode)
    yield from _pairs(_table_settings(table), _table_settings(live.table))
    if target is not None:
        yield "retention_days", str(table.retention_days), _days(target)
        yield from _options(services, live, target)
    yield from _changes_table(services, published)
    staleness = staging.options.get(MAX_STALENESS) if staging else None
    if feed.engine is live.engine is Engine.CDC and staleness:
        yield MAX_STALENESS, staleness_text(feed.cdc.max_staleness_minutes), staleness
    checks = find_check_results(services, live.attempt, "before") if live.applied else None
    if checks:  # a rollback, bootstrap, rebuild or erasure runs no check of the feed's own
        declared = sorted(check.result_name for check in feed.sql_checks)
        ran = sorted(item.check for item in checks.items if item.check.startswith(SQL_CHECK_PREFIX))
        yield "checks.sql", ", ".join(declared), ", ".join(ran)


def _pairs(declared: Mapping[str, str], found: Mapping[str, str]) -> Settings:
    for name in dict.fromkeys([*declared, *found]):
        yield name, declared.get(name, NO_VALUE), found.get(name, NO_VALUE)


def _table_settings(table: TableContract) -> dict[str, str]:
    return {
        "partition_column": table.partition_column,
        "partition_by": str(table.partition_by),
        "snapshot_id_column": table.snapshot_id_column,
        "keys": ", ".join(table.keys),
        "cluster_by": ", ".join(table.cluster_by),
        "absent_keys": str(table.absent_keys),
        "absent_dates": str(table.absent_dates),
        **{column_entry(path): f"{column.type} {column.mode}" for path, column in column_paths(table.columns)},
    }


def _consequences_for_columns(live: Manifest, table: TableContract) -> dict[str, str]:
    before, after = live.table.columns, table.columns
    anew = "a Spark job writes all files anew once"
    texts = {
        f"NULL in the rows of target, SELECT * returns it, and {anew}": added_columns(before, after),
        f"no rollback can restore a generation with the former type, and {anew}": widened_columns(before, after),
        f"NULL may appear in it, and {anew}": relaxed_columns(before, after),
    }
    return {column_entry(path): text for text, paths in texts.items() for path in paths}


def _options(services: Services, live: Manifest, target: TableMetadata) -> Settings:
    """Options, descriptions and primary key, without what others have set on target."""
    feed, swap = services.feed, find_swap(services, live.attempt)
    if swap is None:
        return
    retained = {column.name for column in target.columns}
    declared = without_removed_columns({**swap_options(feed.table), **staging_options(feed.table)}, retained=retained)
    found = {name: target.options[name] for name in {**declared, **swap.options} if name in target.options}
    yield from _pairs(declared, found)
    yield "publish.swap", str(swap_way(services, live.kind, live.parent)), str(swap.way)
    if live.kind is not Kind.ERASE:  # which keeps no previous table, whatever the feed file says
        before = f"{swap.previous_days}d" if swap.previous_days else NO_VALUE
        yield "keep_previous", feed.table.keep_previous or NO_VALUE, before
    is_same = swap.description.startswith(f"{feed.description} ")
    yield "description", feed.description, feed.description if is_same else swap.description


def _changes_table(services: Services, published: Sequence[LedgerRecord]) -> Settings:
    """Compared with the last publish whose engine could find changes; if there is none, with the table of changes."""
    feed, found = services.feed, services.warehouse.table(services.names.changes_table)
    finding = [r for r in published if r.kind is Kind.PUBLISH and r.parent is not None and r.engine.runs_spark]
    had_changes = finding[-1].change_rows is not None if finding else found is not None
    yield "changes", str(feed.changes).lower(), str(had_changes).lower()
    if found is not None and feed.changes:
        yield "changes_days", str(feed.changes_days), _days(found)


def _days(table: TableMetadata) -> str:
    return "all" if table.expiration_days is None else f"{table.expiration_days:g}"


def _lost_by_retention(services: Services, live: Manifest) -> str:
    lost = lost_dates(services, live)
    if not lost:
        return "dates that BigQuery has deleted come back only by a snapshot that has them"
    return (
        f"{len(lost)} dates with {sum(lost.values())} rows vanish, {min(lost)} to {max(lost)}; time travel reads them, "
        f"for seven days at most"
    )


def _notes(services: Services, live: Manifest) -> Iterator[str]:
    feed, table = services.feed, services.feed.table.to_contract()
    if needs_rebuild(live.table, table):
        yield _rebuild_note(services, live)
    lost = change_rows_to_lose(services, table) if feed.changes else None
    if lost is not None:
        yield f"{services.names.changes_table} is made anew, and loses its {lost} rows: copy it first to keep them"
    staging = services.warehouse.table(feed.staging)
    if feed.sql_checks and staging is not None and staging.columns != table.columns:
        yield "the queries of SQL checks were not tried, because staging lacks columns of the feed file"


def _rebuild_note(services: Services, live: Manifest) -> str:
    """Whether a rebuild makes the changes that a publish refuses, and what that costs."""
    feed, table = services.feed, services.feed.table.to_contract()
    problems, size = rebuild_problems(live.table, table, {}), 0
    if not problems and services.warehouse.table(feed.target) is not None:
        try:
            size = copy_bytes(services, live, renamed={})
        except ConfigurationError as error:
            problems = [str(error)]
    if problems:
        return f"dedup_clone_rebuild cannot make these changes if no column was renamed: {'; '.join(problems)}"
    cost = f"its query reads {price_text(size)} (more if a column was renamed)" if size else "it needs no query"
    return f"trigger dedup_clone_rebuild, which makes these changes after your approval; {cost}"
