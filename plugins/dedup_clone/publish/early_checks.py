"""Checks that need no row of the new generation: they run before the dedup, and most of them again before the swap.

Staging and target may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dedup_clone.checks import table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults, accept, require_no_failure
from dedup_clone.checks.table_checks import check_undeclared_options, replaced_by_copy
from dedup_clone.contract.attempt import Kind, Swap
from dedup_clone.contract.schema_change import added_columns
from dedup_clone.contract.table import Column
from dedup_clone.publish.attempts import find_swap
from dedup_clone.publish.declared_form import staging_options, swap_options
from dedup_clone.publish.services import Services
from dedup_clone.publish.sql_checks import dry_run_sql_checks
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import column_entry, row_policy_entry, without_removed_columns

NOT_DEDUPLICATED = "Nothing was deduplicated, target keeps its old content."


def check_before_dedup(
    services: Services, parent: int | None, kind: Kind, *, accepted: Collection[str] = (), reason: str = ""
) -> CheckResults:
    """The results of the checks that do not depend on the new generation.

    `parent`: the live generation. `accepted`: the checks whose failure the operator accepts; `reason`: why.
    """
    feed = services.feed
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    results = [table_checks.check_target_is_parent(target, parent, None)]
    if staging is not None:
        results.append(table_checks.check_layout(staging, target, feed.table.to_contract()))
        results += check_tables(services, staging, target, parent, kind)
        results += dry_run_sql_checks(services, staging) if kind in (Kind.PUBLISH, Kind.REBUILD) else []
    return CheckResults("before", accept(results, accepted, reason))


def check_tables(
    services: Services, staging: TableMetadata, target: TableMetadata | None, parent: int | None, kind: Kind
) -> list[CheckResult]:
    """Whether something about the tables would make BigQuery refuse the swap, or let it lose something."""
    feed, way = services.feed, swap_way(services, kind, parent)
    views = services.warehouse.materialized_views_of(feed.target) if way is Swap.CLONE else []
    return [
        table_checks.check_table_expiration([staging, *([target] if target else [])]),
        table_checks.check_materialized_views(views),
        *check_policies(services, "staging_policies", feed.staging),
        *(check_policies(services, "target_policies", feed.target) if target and way is Swap.COPY else []),
        *_check_access(services),
        *_check_previous(services, kind),
        *_check_target_options(services, staging, target, parent, way),
    ]


def swap_way(services: Services, kind: Kind, parent: int | None) -> Swap:
    """How an attempt swaps. A load keeps target's layout, so a rebuild clones, and so does a first publish."""
    is_copied = parent is not None and kind is not Kind.REBUILD
    return services.feed.publish.swap if is_copied else Swap.CLONE


def kept_days(services: Services, kind: Kind) -> int:
    """For how many days the swap keeps the table that it replaces. An erasure keeps none: it has the erased rows."""
    return 0 if kind is Kind.ERASE else services.feed.table.previous_days


def check_policies(services: Services, check: str, table: str) -> list[CheckResult]:
    """Return one result, named `check`, for the table's policies; none if the feed file declares no policies."""
    declared = services.feed.table.policies
    if not declared.row_access and not declared.column_tags:
        return []
    return [table_checks.check_policies(check, services.warehouse.policies(table), declared)]


def require_policies_of_staging(services: Services) -> None:
    """Raise CheckFailed if staging lacks a declared policy: readers of staging would see what target hides."""
    results = check_policies(services, "staging_policies", services.feed.staging)
    require_no_failure(CheckResults("before", tuple(results)), "No row was loaded, target keeps its old content.")


def _check_access(services: Services) -> list[CheckResult]:
    """Check that the run's account is allowed to read staging as of a past time.

    No result if the feed file declares no row access policies.
    """
    if not services.feed.table.policies.row_access:
        return []
    return [table_checks.check_staging_access(services.warehouse.missing_access(services.feed.staging))]


def _check_previous(services: Services, kind: Kind) -> list[CheckResult]:
    """Check that no foreign table has the name under which the swap keeps the previous one; none if it keeps none."""
    if not kept_days(services, kind):
        return []
    previous = services.warehouse.table(services.names.previous_table)
    return [table_checks.check_previous_table(services.names.previous_table, previous)]


def find_previous(services: Services, *, before: int) -> list[str]:
    """The name of the table that the last swap kept, if it has a generation below `before`; else nothing."""
    name = services.names.previous_table
    label = table_checks.labelled_generation(services.warehouse.table(name))
    return [name] if label and int(label) < before else []


def _check_target_options(
    services: Services, staging: TableMetadata, target: TableMetadata | None, parent: int | None, way: Swap
) -> list[CheckResult]:
    """Check that the next swap removes no option, policy or description that others than this project set on target.

    Return one result; none if target is absent. `parent`: the live generation, None without one.
    """
    if target is None:
        return []
    declared = {**swap_options(services.feed.table), **staging_options(services.feed.table)}
    retained = {column.name for column in staging.columns}  # target may have columns that a rebuild drops
    live = None if parent is None else services.manifests.read(parent)
    swap = None if live is None else find_swap(services, live.attempt)
    entries = without_removed_columns(_options_and_policies(services, target), retained=retained)
    if live is not None:
        feed_file = services.feed.table.to_contract()
        entries |= _columns_by_hand(target, staging.columns, live.table.columns, feed_file.columns)
    if way is Swap.COPY:
        entries = replaced_by_copy(entries)
    return [
        check_undeclared_options(
            target=entries,
            staging=_options_and_policies(services, staging),
            declared=declared,
            # The next swap may remove what this one set, once it is not declared.
            last_set=swap.options if swap else {},
        )
    ]


def _columns_by_hand(target: TableMetadata, *known: Sequence[Column]) -> dict[str, str]:
    """Entries for the columns of target that are in none of the `known` lists: somebody added them."""
    added = set.intersection(*(set(added_columns(columns, target.columns)) for columns in known))
    return {column_entry(path): "added by hand" for path in sorted(added)}


def _options_and_policies(services: Services, table: TableMetadata) -> dict[str, str]:
    """The table's options and row access policies, as entries of `warehouse/table_options.py`."""
    policies = services.warehouse.row_policies(table.name)
    return {**table.options, **{row_policy_entry(name): text for name, text in policies.items()}}
