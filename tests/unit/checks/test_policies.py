"""Declared row and column policies must be on the table."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.table_checks import check_policies
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.metadata import Policies

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
DECLARED = PolicySettings(row_access=("only_own_stores",), column_tags={"attr_value": TAG})


def test_all_declared_policies_pass_and_others_may_be_there() -> None:
    found = Policies(("another", "only_own_stores"), {"attr_value": TAG, "store_id": "x"})
    assert check_policies("staging_policies", found, DECLARED).level is Level.PASS


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (Policies((), {"attr_value": TAG}), "row access policies only_own_stores; column tags none"),
        (Policies(("only_own_stores",), {}), f"row access policies none; column tags attr_value: {TAG}"),
        (Policies(("only_own_stores",), {"attr_value": "projects/p/other"}), f"column tags attr_value: {TAG}"),
    ],
)
def test_a_missing_policy_fails_and_is_named(found: Policies, named: str) -> None:
    result = check_policies("staging_policies", found, DECLARED)
    assert result.level is Level.FAIL
    assert named in result.found


def test_a_tag_that_is_no_resource_name_is_refused() -> None:
    with pytest.raises(ValidationError):
        PolicySettings(column_tags={"attr_value": "secret"})
