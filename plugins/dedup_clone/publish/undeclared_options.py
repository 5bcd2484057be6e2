"""Checks that the next swap removes no option, policy or description that others than this project set on target."""

from __future__ import annotations

from collections.abc import Sequence

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.checks.option_checks import check_undeclared_options
from dedup_clone.contract.schema_change import added_columns
from dedup_clone.contract.table import Column
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import column_entry, row_policy_entry, without_removed_columns


def check_target_options(services: Services, target: TableMetadata | None, parent: int | None) -> list[CheckResult]:
    """Return one result; none if target or staging is absent. `parent`: the live generation, None without one."""
    staging = services.warehouse.table(services.feed.staging)
    if target is None or staging is None:
        return []
    declared = {**swap_options(services.feed.table), **staging_options(services.feed.table)}
    retained = {column.name for column in staging.columns}  # target may have columns that a rebuild drops
    live = None if parent is None else services.manifests.read(parent)
    swap = None if live is None else find_swap(services, live.attempt)
    entries = without_removed_columns(_entries(services, target), retained=retained)
    if live is not None:
        feed_file = services.feed.table.to_contract()
        entries |= _columns_by_hand(target, staging.columns, live.table.columns, feed_file.columns)
    return [
        check_undeclared_options(
            target=entries,
            staging=_entries(services, staging),
            declared=declared,
            # The next swap may remove what this one set, once it is not declared.
            last_set=swap.options if swap else {},
        )
    ]


def _columns_by_hand(target: TableMetadata, *known: Sequence[Column]) -> dict[str, str]:
    """Entries for the columns of target that are in none of the `known` lists: somebody added them."""
    added = set.intersection(*(set(added_columns(columns, target.columns)) for columns in known))
    return {column_entry(path): "added by hand" for path in sorted(added)}


def _entries(services: Services, table: TableMetadata) -> dict[str, str]:
    """The table's options and row access policies, as entries of `warehouse/table_options.py`."""
    policies = services.warehouse.row_policies(table.name)
    return {**table.options, **{row_policy_entry(name): text for name, text in policies.items()}}
