"""Checks that the next swap removes no option, policy or description that others than this project set on target."""

from __future__ import annotations

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.checks.option_checks import check_undeclared_options
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import row_policy_entry, without_removed_columns


def check_target_options(services: Services, target: TableMetadata | None, parent: int | None) -> list[CheckResult]:
    """Return one result; none if target or staging is absent. `parent`: the live generation, None without one."""
    staging = services.warehouse.table(services.feed.staging)
    if target is None or staging is None:
        return []
    declared = {**swap_options(services.feed.table), **staging_options(services.feed.table)}
    retained = {column.name for column in staging.columns}  # target may have columns that a rebuild drops
    return [
        check_undeclared_options(
            target=without_removed_columns(_entries(services, target), retained=retained),
            staging=_entries(services, staging),
            declared=declared,
            last_set=_set_by_last_swap(services, parent),
        )
    ]


def _entries(services: Services, table: TableMetadata) -> dict[str, str]:
    """The table's options and row access policies, as entries of `warehouse/table_options.py`."""
    policies = services.warehouse.row_policies(table.name)
    return {**table.options, **{row_policy_entry(name): text for name, text in policies.items()}}


def _set_by_last_swap(services: Services, parent: int | None) -> dict[str, str]:
    """The options that the live generation's swap set. The next swap may remove them once they are not declared."""
    swap = None if parent is None else find_swap(services, services.manifests.read(parent).attempt)
    return swap.options if swap else {}
