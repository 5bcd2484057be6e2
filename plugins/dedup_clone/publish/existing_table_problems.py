"""What keeps a table from becoming a feed's first generation, each as one sentence with its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from dedup_clone.checks.partitions import partition_day
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.facts import Observation, PartitionFacts, TableFacts


def standing_problems(services: Services, where: str, is_target: bool) -> list[str]:
    """What is in the way on the feed's side; `where` is the table's name with its dataset."""
    feed, found = services.feed, []
    generation = services.current.read().generation
    if generation is not None:
        found.append(
            f"feed [{feed.feed}] publishes already (generation [{generation}]): a bootstrap is the first publish of a "
            f"feed; take the table over as a feed of another name"
        )
    if where == f"{services.names.dataset}.{feed.staging}":
        found.append("it is the feed's own staging table: name the table that readers query")
    if not is_target and services.warehouse.table(feed.target) is not None:
        found.append(
            f"target [{feed.target}] exists, and another table is to be taken over: leave [source_table] empty to take "
            f"over target itself, or rename target"
        )
    return found


def table_problems(services: Services, table: TableFacts, is_target: bool) -> list[str]:
    """What the table itself is, and must not be."""
    contract, location = services.feed.table.to_contract(), services.warehouse.location
    if table.kind != "TABLE":
        return [f"it is a [{table.kind}], expected a table: copy its rows into one, and name that"]
    found = []
    if table.location.lower() != location.lower():
        found.append(f"it lies in [{table.location}], expected [{location}]: copy its dataset there")
    layout = (table.partition_column, table.granularity)
    if layout != (contract.partition_column, "DAY"):
        found.append(
            f"it is partitioned by [{table.partition_column or 'no column'}] ([{table.granularity or 'none'}]), "
            f"expected by [{contract.partition_column}] ([DAY]): copy its rows into a table of that layout, and name it"
        )
    if is_target and table.cluster_by != contract.cluster_by:
        found.append(
            f"it is clustered by [{', '.join(table.cluster_by) or 'no column'}], expected by "
            f"[{', '.join(contract.cluster_by) or 'no column'}], for BigQuery replaces no table by one with another "
            f"layout: put the table's clustering into the feed's file"
        )
    found += _column_problems(table.columns, contract.columns)
    if table.has_streaming_buffer:
        found.append("rows are in its streaming buffer: stop whoever streams; it is flushed within 90 minutes")
    return found + (_lost_with_target(services) if is_target else [])


def _column_problems(found: tuple[Column, ...], declared: tuple[Column, ...]) -> list[str]:
    have, want = {c.name: c for c in found}, {c.name: c for c in declared}
    problems = [f"column [{name}] is missing, expected {_type(want[name])}" for name in want if name not in have]
    problems += [
        f"column [{name}] is not in the feed's file: drop it, or declare it" for name in have if name not in want
    ]
    return problems + [
        f"column [{name}] is {_type(have[name])}, expected {_type(want[name])}"
        for name in want
        if name in have and _type(have[name]) != _type(want[name])
    ]


def _type(column: Column) -> str:
    """Whether a column may be NULL is judged by its rows."""
    inner = f"STRUCT<{', '.join(f'{f.name} {_type(f)}' for f in column.fields)}>" if column.fields else column.type
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


def _lost_with_target(services: Services) -> list[str]:
    """What target has and its replacement would not."""
    declared, held = services.feed.table.policies, services.warehouse.policies(services.feed.target)
    policies = sorted({*held.row_access} - {*declared.row_access})
    tags = sorted(name for name, tag in held.column_tags.items() if declared.column_tags.get(name) != tag)
    found = []
    if policies or tags:
        found.append(
            f"it has row access policies {policies} and policy tags on columns {tags} that the feed's file does not "
            f"declare, and its replacement would be without: declare them, and create staging with them"
        )
    views = services.warehouse.materialized_views_of(services.feed.target)
    if views:
        found.append(f"materialized views {views} read it, and would break when it is replaced: drop them first")
    return found


def row_problems(services: Services, observation: Observation, latest: date) -> list[str]:
    """Rows that no generation may have, as far as partitions tell; `latest` is the last date allowed."""
    column, found = services.feed.table.partition_column, []
    special = [p for p in observation.partitions if partition_day(p) is None and p.rows]
    if special:
        found.append(
            f"column [{column}]: {sum(p.rows for p in special)} rows are [NULL] or not in their partition yet "
            f"({', '.join(p.partition_id for p in special)}), expected a date in every row: delete or correct them"
        )
    late = list(_later(observation.partitions, latest))
    if late:
        found.append(
            f"column [{column}]: {sum(p.rows for p in late)} rows have dates after [{latest}], up to "
            f"[{late[-1].partition_id}]: delete or correct them"
        )
    return found


def _later(partitions: Iterable[PartitionFacts], latest: date) -> Iterable[PartitionFacts]:
    for partition in sorted(partitions, key=lambda p: p.partition_id):
        day = partition_day(partition)
        if day is not None and day > latest and partition.rows:
            yield partition
