"""Checks that a swap removes nothing that somebody has put on target, and that it set what the feed declares.

An entry is one option, label, policy, constraint or description of a table, as name and value
(`warehouse/table_options.py`).

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from dedup_clone.checks.check_result import CheckResult, listed, make_result
from dedup_clone.warehouse.table_options import (
    COLUMN,
    DESCRIPTION,
    FRIENDLY_NAME,
    KMS_KEY,
    PARTITION_FILTER,
    POLICY_TAG,
    PRIMARY_KEY,
    RESOURCE_TAG,
    TYPE_PARAMETERS,
)

# Where a feed file declares an entry, by the first words of the entry's name. Entries with other names cannot be
# declared.
_DECLARED_IN = {
    "label": "table.options.labels",
    FRIENDLY_NAME: "table.options.friendly_name",
    PARTITION_FILTER: "table.options.require_partition_filter",
    KMS_KEY: "table.options.kms_key",
    PRIMARY_KEY: "table.primary_key",
    DESCRIPTION: "the column's description",
    "row access policy": "table.policies.row_access, and make it on staging",
    POLICY_TAG: "table.policies.column_tags, and set it on staging",
}
# First words of the entries that a clone does not inherit from its source.
_NOT_CLONED = ("label", FRIENDLY_NAME, PARTITION_FILTER, RESOURCE_TAG)
OR_REMOVE = "; or remove it from target."


def check_undeclared_options(
    *, target: Mapping[str, str], staging: Mapping[str, str], declared: Mapping[str, str], last_set: Mapping[str, str]
) -> CheckResult:
    """Every entry of target is declared, was set by the last swap, or is on staging and inherited by clones.

    The arguments are entries: values by name. `last_set`: the entries that the last swap set.
    """
    lost = {
        name: value
        for name, value in target.items()
        if name not in declared
        and last_set.get(name) != value
        and (name.startswith(_NOT_CLONED) or staging.get(name) != value)
    }
    return make_result(
        "target_options",
        not lost,
        found=listed([f"{name}: {value}" for name, value in lost.items()], between="; "),
        expected="nothing on target that the swap would remove",
        next_step=f"{'; '.join(dict.fromkeys(map(_advice, lost)))} (docs/feed-file.md){OR_REMOVE}",
    )


def check_target_options_set(target: Mapping[str, str], declared: Mapping[str, str]) -> CheckResult:
    """After the swap, target has every option that the swap was to set (`declared`)."""
    missing = [f"{name}: {value}" for name, value in declared.items() if target.get(name) != value]
    return make_result(
        "target_options_set",
        not missing,
        found=f"missing: {listed(missing, between='; ')}" if missing else "all set",
        expected="the options that the feed file declares",
        next_step="somebody changed target after the swap: see the job list; the next publish sets them again.",
    )


def _advice(name: str) -> str:
    """What to do so that the swap does not remove the entry with this name."""
    if name.startswith(RESOURCE_TAG):
        return "attach the tag to the dataset, from which target inherits it"
    if name.startswith(COLUMN):
        return "keep the column's values in a table of your own, because the swap has none, and drop it from target"
    if name.startswith(TYPE_PARAMETERS):
        return "feed files have no parameterized types: ALTER COLUMN … SET DATA TYPE without the parameters on target"
    for words, place in _DECLARED_IN.items():
        if name.startswith(words):
            return f"declare {words} in {place}"
    return f"set {name.split(' [', 1)[0]} on staging"
