"""Tables: schema, layout, lineage, and whatever makes BigQuery refuse or break a clone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dedup_clone.checks.verdicts import Verdict, listed, verdict
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.warehouse.facts import TableFacts

GENERATION_LABEL = "dedup_clone_generation"
MANIFEST_LABEL = "dedup_clone_manifest"


def schema_matches(staging: TableFacts, contract: TableContract) -> Verdict:
    return verdict(
        "staging_schema",
        staging.columns == contract.columns,
        found=_columns(staging.columns),
        expected=_columns(contract.columns),
        next_step="a schema change needs a bootstrap of the feed; or put the feed file's columns back.",
    )


def layout_matches(staging: TableFacts, target: TableFacts | None, contract: TableContract) -> Verdict:
    """BigQuery refuses to replace a table by one with another partitioning or clustering."""
    expected = _layout(contract.partition_column, contract.cluster_by)
    tables = [staging] if target is None else [staging, target]
    found = {table.name: _layout(table.partition_column, table.cluster_by) for table in tables}
    return verdict(
        "layout",
        all(layout == expected for layout in found.values()),
        found="; ".join(f"{name}: {layout}" for name, layout in found.items()),
        expected=expected,
        next_step="never drop target to get past this: bootstrap the feed with the new layout.",
    )


def no_streaming_buffer(staging: TableFacts) -> Verdict:
    """Rows in a streaming buffer are not in a clone."""
    return verdict(
        "streaming_buffer",
        not staging.has_streaming_buffer,
        found="a streaming buffer" if staging.has_streaming_buffer else "none",
        expected="none",
        next_step="stop whoever streams into staging; the buffer is flushed within 90 minutes; then clear the run.",
    )


def no_materialized_views(dependents: list[str]) -> Verdict:
    return verdict(
        "materialized_views",
        not dependents,
        found=listed(dependents),
        expected="none",
        next_step="they break when target is replaced: drop them, or let them read a view of target.",
    )


def target_is_ours(
    target: TableFacts | None, parent: int | None, generation: int, taken_over: str | None = None
) -> Verdict:
    """A target that this project did not publish is never replaced; one that it did is the parent's (or ours).

    But for a bootstrap of target itself, in the version that is `taken_over`.
    """
    live = None if target is None else target.labels.get(GENERATION_LABEL)
    expected = None if parent is None else str(parent)
    known = target is None or parent is not None or target.version == taken_over
    return verdict(
        "target_is_parent",
        live == str(generation) or (live == expected and known),
        found="absent" if target is None else f"generation {live}",
        expected="absent (first publish)" if parent is None else f"generation {parent}",
        next_step="a table of that name exists or was changed by hand: bootstrap the feed, or restore its labels.",
    )


def is_clone_of_staging(target: TableFacts, staging: str, checked_at: datetime) -> Verdict:
    return verdict(
        "target_is_clone",
        target.clone_of == staging and target.clone_time == checked_at,
        found=f"clone of {target.clone_of} at {target.clone_time}",
        expected=f"clone of {staging} at {checked_at}",
        next_step="somebody replaced target after the swap: see the dataset's job list, then replay the snapshot.",
    )


def has_labels(target: TableFacts, generation: int, manifest_digest: str) -> Verdict:
    expected = {GENERATION_LABEL: str(generation), MANIFEST_LABEL: manifest_digest}
    found = {key: target.labels.get(key) for key in expected}
    return verdict(
        "target_labels",
        found == expected,
        found=_labels(found),
        expected=_labels(expected),
        next_step="labels were changed by hand: the next publish will refuse; replay the snapshot.",
    )


def _layout(partition_column: str | None, cluster_by: tuple[str, ...]) -> str:
    return f"partitioned by {partition_column or 'nothing'}, clustered by {', '.join(cluster_by) or 'nothing'}"


def _labels(labels: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value or 'absent'}" for name, value in labels.items())


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{c.name} {c.type}{'' if c.mode == 'NULLABLE' else ' ' + c.mode}" for c in columns)
