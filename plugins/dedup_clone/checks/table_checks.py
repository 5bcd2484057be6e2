"""Checks table metadata: schema, layout, policies, labels and options, and what makes BigQuery refuse a clone.

An entry is one option, label, policy, constraint or description of a table, as name and value
(`warehouse/table_options.py`).

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import CheckResult, listed, make_result
from dedup_clone.contract.schema_change import refused_column_changes
from dedup_clone.contract.table import Column, ColumnMode, PartitionBy, TableContract
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.metadata import Policies, TableMetadata
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

GENERATION_LABEL = "dedup_clone_generation"
MANIFEST_LABEL = "dedup_clone_manifest"


def labelled_generation(target: TableMetadata | None) -> str | None:
    """The generation that target's label names; None if target or its label is absent."""
    return None if target is None else target.labels.get(GENERATION_LABEL)


def check_staging_schema(staging: TableMetadata, contract: TableContract, *, restores: bool = False) -> CheckResult:
    """Staging has the columns of `contract`.

    `restores`: whether a rollback restores a generation with these columns. Staging may then have columns that later
    publishes added or altered.
    """
    fits_restored = restores and not refused_column_changes(contract.columns, staging.columns)
    return make_result(
        "staging_schema",
        fits_restored or staging.columns == contract.columns,
        found=_columns(staging.columns),
        expected=_columns(contract.columns),
        next_step="put the columns of staging or of the feed file back (docs/feeds.md, change a feed).",
    )


def check_layout(staging: TableMetadata, target: TableMetadata | None, contract: TableContract) -> CheckResult:
    """Staging and target are partitioned and clustered as in `contract`; else BigQuery refuses to replace target."""
    expected = _layout(contract.partition_column, contract.partition_by, contract.cluster_by)
    next_step = (
        "never drop target to get past this: dedup_clone_rebuild changes the clustering (docs/feeds.md, rebuild the "
        "table)."
    )
    if target is not None and _found_layout(staging) == expected:
        next_step = (
            f"somebody replaced target: move it away (bq cp, then bq rm) and run `python -m deploy recover "
            f"{target.name} --apply`, which makes it from staging again."
        )
    tables = [table for table in (staging, target) if table is not None]
    found = {table.name: _found_layout(table) for table in tables}
    return make_result(
        "layout",
        all(layout == expected for layout in found.values()),
        found="; ".join(f"{name}: {layout}" for name, layout in found.items()),
        expected=expected,
        next_step=next_step,
    )


def _none(check: str, found: list[str], *, next_step: str) -> CheckResult:
    return make_result(check, not found, found=listed(found, between="; "), expected="none", next_step=next_step)


def check_table_expiration(tables: Iterable[TableMetadata]) -> CheckResult:
    """None of the tables expires. A table gets an expiration time if its dataset has a default for new tables."""
    expiring = [f"{table.name}: expires {table.expires_at:%Y-%m-%d %H:%M}" for table in tables if table.expires_at]
    return _none(
        "table_expiration",
        expiring,
        next_step="run `bq update --default_table_expiration=0 DATASET`, since new tables get the dataset's default, "
        "and `ALTER TABLE DATASET.TABLE SET OPTIONS (expiration_timestamp = NULL)` for each; then clear the run.",
    )


def check_streaming_buffer(tables: Iterable[TableMetadata], now: datetime) -> CheckResult:
    """No table has rows in a streaming buffer. A swap loses such rows: a clone lacks those of staging, and replaces
    those of target.
    """
    buffers = [describe_buffer(table, now) for table in tables if table.streaming_buffer is not None]
    return _none(
        "streaming_buffer",
        buffers,
        next_step="stop whoever streams into it and let a snapshot deliver those rows, because no publish keeps them; "
        "BigQuery empties the buffer within 90 minutes; then clear the run.",
    )


def describe_buffer(table: TableMetadata, now: datetime) -> str:
    """The table's streaming buffer in words: BigQuery's estimate of its rows, and the age of the oldest."""
    buffer = table.streaming_buffer
    if buffer is None:
        return f"{table.name}: no streamed rows"
    if buffer.oldest_at is None:
        return f"{table.name}: about {buffer.rows} streamed rows of unknown age"
    age = timedelta(seconds=max(0, int((now - buffer.oldest_at).total_seconds())))
    return f"{table.name}: about {buffer.rows} streamed rows, the oldest {age} old"


def check_materialized_views(views: list[str]) -> CheckResult:
    """No materialized view reads target. `views`: the names of those that do."""
    return _none(
        "materialized_views",
        views,
        next_step="they break when target is replaced: set publish.swap to copy, which keeps target (but not in a "
        "rebuild or a first publish), drop them, or let them read a view of target.",
    )


def check_previous_table(name: str, found: TableMetadata | None) -> CheckResult:
    """The table that a swap replaces by a clone of target is absent, or was made by an earlier swap."""
    return make_result(
        "previous_table",
        found is None or labelled_generation(found) is not None,
        found=f"{name} without the label {GENERATION_LABEL}" if found else "absent",
        expected=f"{name} is absent, or was made by a swap",
        next_step="somebody else made it: rename it, or remove keep_previous from the feed file; then clear the run.",
    )


def check_target_is_parent(
    target: TableMetadata | None, parent: int | None, generation: int | None, bootstrapped_version: str | None = None
) -> CheckResult:
    """Target's label names the parent or already the new generation, or target does not exist and there is no parent.

    So the swap does not replace a table that somebody else made. For a bootstrap that takes over target itself, target
    may lack the label if its version is still `bootstrapped_version` (None for other attempts). `generation`: the new
    generation; None before it has a number.
    """
    labelled = labelled_generation(target)
    expected = None if parent is None else str(parent)
    found = "no label with a generation" if labelled is None else f"generation {labelled}"
    may_be_replaced = target is None or parent is not None or target.version == bootstrapped_version
    if target is None:
        next_step = "target was deleted: restore it (docs/runbook.md, the dataset or a table is deleted)."
    elif parent is None and labelled is not None:
        next_step = (
            f"target names a generation that no record knows: the feed's records are lost. Run `python -m "
            f"deploy recover {target.name} --apply` (docs/runbook.md, lost records)."
        )
    elif parent is None:
        next_step = "a table of that name exists: bootstrap the feed from it, or move it away."
    else:
        next_step = "target's labels were changed, or somebody replaced it: see docs/runbook.md, target_is_parent."
    return make_result(
        "target_is_parent",
        labelled == str(generation) or (labelled == expected and may_be_replaced),
        found="absent" if target is None else found,
        expected="absent (first publish)" if parent is None else f"generation {parent}",
        next_step=next_step,
    )


def check_policies(check: str, found: Policies, declared: PolicySettings) -> CheckResult:
    """The table has every policy that the feed declares (it may have more), so that no publish drops one.

    `check`: the name of the check, which depends on the table.
    """
    policies = sorted(set(declared.row_access) - set(found.row_access))
    tags = sorted(f"{c}: {tag}" for c, tag in declared.column_tags.items() if found.column_tags.get(c) != tag)
    expected = [*declared.row_access, *declared.column_tags]
    return make_result(
        check,
        not policies and not tags,
        found=f"missing: row access policies {listed(policies)}; column tags {listed(tags)}"
        if policies or tags
        else "all present",
        expected=f"policies {listed(expected)} as the feed declares them" if expected else "none declared",
        next_step="let whoever governs the data put them on staging again; then clear the run."
        if check == "staging_policies"
        else "readers see more than they may: let whoever governs the data put them on target and staging at once, or "
        "roll back; then replay the snapshot.",
    )


def check_staging_access(missing: list[str]) -> CheckResult:
    """This account may clone staging as of a past time. `missing`: what it lacks to do so.

    If staging has row access policies, only accounts that may read all its rows, past ones included, may do so.
    """
    return make_result(
        "staging_access",
        not missing,
        found=f"the account of Airflow lacks {listed(missing)}" if missing else "access to all rows and their past",
        expected="access to all rows of staging and their past",
        next_step="grant it (docs/deploy.md, Row access policies and policy tags); then clear the run.",
    )


def check_target_is_clone(target: TableMetadata, staging: str, checked_at: datetime) -> CheckResult:
    """After the swap, target is a clone of staging as of `checked_at`."""
    return make_result(
        "target_is_clone",
        target.clone_of == staging and target.clone_time == checked_at,
        found="no clone" if target.clone_of is None else f"clone of {target.clone_of} at {target.clone_time}",
        expected=f"clone of {staging} at {checked_at}",
        next_step="somebody replaced target after the swap: the alert target_drift says how to get it back.",
    )


def check_target_labels(target: TableMetadata, generation: int, manifest_digest: str) -> CheckResult:
    """After the swap, target's labels name the generation and its manifest."""
    expected = {GENERATION_LABEL: str(generation), MANIFEST_LABEL: manifest_digest}
    found = {key: target.labels.get(key) for key in expected}
    wrong = [f"--set_label {key}:{value}" for key, value in expected.items() if found[key] != value]
    return make_result(
        "target_labels",
        found == expected,
        found=_labels(found),
        expected=_labels(expected),
        next_step=f"set the labels back, else the next publish is refused: `bq update {' '.join(wrong)} "
        f"DATASET.{target.name}`.",
    )


def _found_layout(table: TableMetadata) -> str:
    return _layout(table.partition_column, (table.granularity or "day").lower(), table.cluster_by)


def _layout(partition_column: str | None, granularity: str, cluster_by: tuple[str, ...]) -> str:
    unit = "" if granularity == PartitionBy.DAY else f" and {granularity}"
    return f"partitioned by {partition_column or 'nothing'}{unit}, clustered by {', '.join(cluster_by) or 'nothing'}"


def _labels(labels: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value or 'absent'}" for name, value in labels.items())


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(map(_column, columns))


def _column(column: Column) -> str:
    fields = f"<{_columns(column.fields)}>" if column.fields else ""
    mode = "" if column.mode is ColumnMode.NULLABLE else f" {column.mode}"
    return f"{column.name} {column.type}{fields}{mode}"


# What to do so that the swap does not remove an entry, by the first words of the entry's name.
_ADVICE = {
    RESOURCE_TAG: "attach the tag to the dataset, from which target inherits it",
    COLUMN: "keep the column's values in a table of your own, because the swap has none, and drop it from target",
    TYPE_PARAMETERS: "feed files have no parameterized types: ALTER COLUMN … SET DATA TYPE without the parameters on "
    "target",
    "label": "declare label in table.options.labels",
    FRIENDLY_NAME: "declare friendly name in table.options.friendly_name",
    PARTITION_FILTER: "declare require_partition_filter in table.options.require_partition_filter",
    KMS_KEY: "declare KMS key in table.options.kms_key",
    PRIMARY_KEY: "declare primary key in table.primary_key",
    DESCRIPTION: "declare description of column in the column's description",
    "row access policy": "declare row access policy in table.policies.row_access, and make it on staging",
    POLICY_TAG: "declare policy tag in table.policies.column_tags, and set it on staging",
}
# First words of the entries that a clone does not inherit from its source.
_NOT_CLONED = ("label", FRIENDLY_NAME, PARTITION_FILTER, RESOURCE_TAG)


def replaced_by_copy(entries: Mapping[str, str]) -> dict[str, str]:
    """The entries that swap `copy` replaces, because it sets them or has no values. Others stay with the table."""
    return {
        name: entries[name] for name in entries if name.startswith(("label", FRIENDLY_NAME, PARTITION_FILTER, COLUMN))
    }


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
        next_step=f"{'; '.join(dict.fromkeys(map(_advice, lost)))} (docs/feed-file.md); or remove it from target.",
    )


def _advice(name: str) -> str:
    """What to do so that the swap does not remove the entry with this name."""
    otherwise = f"set {name.split(' [', 1)[0]} on staging"
    return next((advice for words, advice in _ADVICE.items() if name.startswith(words)), otherwise)
