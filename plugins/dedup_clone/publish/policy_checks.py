"""Checks that staging and target have the row access policies and policy tags that the feed file declares."""

from __future__ import annotations

from dedup_clone.checks import table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults, require_no_failure
from dedup_clone.publish.services import Services


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
