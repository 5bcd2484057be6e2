"""Compares the options, descriptions and primary key that a feed file declares with those that target has."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.previews.planned_change import PlannedChange
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.settings.table_settings import TableSettings
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.table_options import (
    DESCRIPTION,
    KMS_KEY,
    PARTITION_FILTER,
    PRIMARY_KEY,
    without_removed_columns,
)

_EFFECT_ON_TARGET, _EFFECT_ON_STAGING = (
    "sets it on target by the swap",
    "sets it on staging, from where the swap takes it",
)


def option_changes(services: Services, live: Manifest, target: TableMetadata | None) -> Iterator[PlannedChange]:
    """What the next publish changes on target besides rows, columns and retention.

    Descriptions of columns that target lacks are left out.
    """
    if target is None:
        return
    feed, table, swap = services.feed, services.feed.table, find_swap(services, live.attempt)
    all_declared = {**swap_options(table), **staging_options(table)}
    declared = without_removed_columns(all_declared, retained={column.name for column in target.columns})
    different = {entry: value for entry, value in declared.items() if target.options.get(entry) != value}
    described = [e.removeprefix(f"{DESCRIPTION} [").removesuffix("]") for e in different if e.startswith(DESCRIPTION)]
    for entry, value in different.items():
        if not entry.startswith(DESCRIPTION):
            yield _planned_setting(table, entry, value, target.options.get(entry))
    if described:
        yield PlannedChange(f"descriptions of columns {', '.join(described)}", _EFFECT_ON_STAGING, "other texts")
    for entry, value in (swap.options if swap else {}).items():
        if entry not in all_declared and target.options.get(entry) == value:
            yield _planned_removal(table, entry)
    if swap and not swap.description.startswith(f"{feed.description} "):
        yield PlannedChange("description of the table", _EFFECT_ON_TARGET, "another text")


def _planned_setting(table: TableSettings, entry: str, value: str, former: str | None) -> PlannedChange:
    change = f"{entry} becomes [{value}]" + (f", it was [{former}]" if former else "")
    if entry == PARTITION_FILTER:
        readers = f"queries without a filter on column [{table.partition_column}] fail from the swap on"
        return PlannedChange(change, _EFFECT_ON_TARGET, readers)
    if entry == KMS_KEY:
        effect = "encrypts staging with it; target has it from the swap on"
        return PlannedChange(change, effect, "nothing, as long as BigQuery's service account may use the key")
    if entry == PRIMARY_KEY:
        return PlannedChange(change, _EFFECT_ON_STAGING, "no query fails; BigQuery may use it to plan joins")
    return PlannedChange(change, _EFFECT_ON_TARGET, "no query fails; lists and reports by it change")


def _planned_removal(table: TableSettings, entry: str) -> PlannedChange:
    change = f"{entry} is no longer declared"
    if entry == KMS_KEY:
        return PlannedChange(change, "keeps the key, because staging has it", "nothing")
    if entry == PARTITION_FILTER:
        readers = f"queries without a filter on column [{table.partition_column}] work, and read all dates"
        return PlannedChange(change, "removes it from target by the swap", readers)
    return PlannedChange(change, "removes it from target by the swap", "no query fails; lists and reports by it change")
