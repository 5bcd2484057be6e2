"""Compares `changes`, `cdc` and `checks.sql` of a feed file with those of the last publishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.previews.planned_change import PlannedChange
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.records.changes_table import change_rows_to_lose
from dedup_clone.publish.services import Services
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.warehouse.change_data_capture import staleness_text
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import MAX_STALENESS


def setting_changes(
    services: Services,
    live: Manifest,
    staging: TableMetadata | None,
    published: Sequence[LedgerRecord],
    check_results: Sequence[CheckResult],
) -> Iterator[PlannedChange]:
    """The differences. `published`: attempts, newest last. `check_results`: of the checks before the dedup."""
    yield from _changes_table(services, live, published)
    if services.feed.engine is live.engine is Engine.CDC:
        yield from _max_staleness(services, staging)
    if live.applied:  # a rollback, bootstrap, rebuild or erasure applies no delivery and skips some checks
        yield from _sql_checks(services, live, check_results)


def _changes_table(services: Services, live: Manifest, published: Sequence[LedgerRecord]) -> Iterator[PlannedChange]:
    feed, name = services.feed, services.names.changes_table
    found, had_changes = services.warehouse.table(name), _last_had_changes(services, live, published)
    if not feed.changes:
        if had_changes:
            effect = f"adds no rows to {name}, whose dates expire as before"
            yield PlannedChange("[changes] is no longer true", effect, f"{name} gets no rows of later generations")
        return
    if not had_changes:
        yield PlannedChange(
            "[changes] is true",
            f"{'makes' if found is None else 'adds to'} {name}, by a free load job after the commit",
            f"{name} has the rows that change from now on, with old and new values",
            f"the Spark job reads each date with differences two more times; storage for {feed.changes_days} days",
        )
    if found is not None and found.expiration_days != feed.changes_days:
        shown = "all" if found.expiration_days is None else f"{found.expiration_days:g}"
        is_less = found.expiration_days is None or feed.changes_days < found.expiration_days
        yield PlannedChange(
            f"changes_days of {name} becomes {feed.changes_days}, it was {shown}",
            "sets it when it loads its changes",
            f"changes older than {feed.changes_days} days vanish" if is_less else "nothing",
        )
    lost = change_rows_to_lose(services, feed.table.to_contract())
    if lost is not None:
        yield PlannedChange(
            f"{name} cannot keep its rows, because columns get another name or type",
            f"the next changes are loaded into a new {name}; the {lost} rows of earlier generations are dropped",
            f"the history vanishes from {name}: copy the table first to keep it",
        )


def _last_had_changes(services: Services, live: Manifest, published: Sequence[LedgerRecord]) -> bool:
    """Whether the last publish of the feed had `changes: true`.

    This is read from the record of the last publish by an engine that can find changes; without such a record, from the
    live generation's request; without a request, or if engine cdc was requested, from the feed file.
    """
    finding = [r for r in published if r.kind is Kind.PUBLISH and r.parent is not None and r.engine.runs_spark]
    if finding:
        return finding[-1].change_rows is not None
    request = services.manifests.request(live.attempt)
    if request is None or request.engine is Engine.CDC:  # a request of engine cdc asks for changes in any case
        return services.feed.changes
    return request.changes is not None


def _max_staleness(services: Services, staging: TableMetadata | None) -> Iterator[PlannedChange]:
    found = staging.options.get(MAX_STALENESS) if staging else None
    declared = staleness_text(services.feed.cdc.max_staleness_minutes)
    if found is not None and found != declared:
        yield PlannedChange(
            f"max_staleness becomes [{declared}], it was [{found}]",
            "sets it before it streams",
            "nothing: rows are the same at the swap",
            "BigQuery applies rows more often the smaller it is, and bills each time",
        )


def _sql_checks(services: Services, live: Manifest, check_results: Sequence[CheckResult]) -> Iterator[PlannedChange]:
    results = find_check_results(services, live.attempt, "before")
    if results is None:
        return
    ran = {item.check for item in results.items if item.check.startswith(SQL_CHECK_PREFIX)}
    declared = [check.result_name for check in services.feed.sql_checks]
    # Before the dedup a query is only estimated, and `found` says how many bytes it would read.
    estimates = {item.check: item.found for item in check_results}
    for check in declared:
        if check not in ran:
            yield PlannedChange(
                f"check {check} is new",
                "runs it over staging before the swap, and stops if it fails",
                "nothing",
                estimates.get(check, "not known before staging has the new columns"),
            )
    for check in sorted(ran - set(declared)):
        yield PlannedChange(f"check {check} is gone", "does not run it", "nothing")
