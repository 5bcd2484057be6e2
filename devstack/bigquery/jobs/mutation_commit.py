"""The changes of a DML statement as new segments and one commit; other partitions keep theirs.

Snapshot isolation: what another statement did to the same partitions since the snapshot makes the commit fail with
`ConcurrentUpdate`, and the statement runs again on the newer rows. Rows that an INSERT added meanwhile stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs.changes import Changes
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.partition_rows import split_rows
from devstack.bigquery.sql.types import quoted
from devstack.bigquery.storage.catalog import Catalog, Change
from devstack.bigquery.storage.model import Partition, Segment, TableId, TableVersion
from devstack.bigquery.storage.relation import ROW, relation_sql, rows_of, segment_number, segment_numbers
from devstack.bigquery.storage.segments import Batch


class ConcurrentUpdate(InvalidQuery):
    """The statement's partitions changed while it ran."""

    def __init__(self, table: TableId) -> None:
        super().__init__(f"Could not serialize access to table {table} due to concurrent update")


@dataclass(frozen=True)
class Rewrite:
    """`replaced` are partitions whose rows are written anew, `added` those that only get more rows."""

    replaced: Mapping[str, tuple[Segment, ...]]
    added: Mapping[str, tuple[Segment, ...]]


def updated_partitions(version: TableVersion, changes: Changes, session: DuckDbSession) -> set[str]:
    """Those that lose or change a row: they are rewritten, and billed whole (F22)."""
    _, found = session.run(f"SELECT DISTINCT {segment_number(ROW)} AS number FROM {changes.removed}")
    touched = set(found.column(0).to_pylist())
    return {key for key, numbers in segment_numbers(version).items() if not touched.isdisjoint(numbers)}


def rewrite(
    table: TableId,
    version: TableVersion,
    changes: Changes,
    updated: set[str],
    session: DuckDbSession,
    catalog: Catalog,
    batch: Batch,
) -> Rewrite:
    """Writes the segments: one for each partition that changes."""
    new = dict(split_rows(changes.new_rows, version.settings.partition_column))
    columns = ", ".join(f"_kept.{quoted(column.name)}" for column in version.settings.schema)
    replaced: dict[str, tuple[Segment, ...]] = {}
    numbers = segment_numbers(version)
    for key in sorted(updated):
        rows = relation_sql(table, version, catalog.segments, partition=key, identity=True)
        gone = f"(SELECT {ROW} FROM {changes.removed} WHERE {rows_of(numbers[key], ROW)})"
        _, kept = session.run(
            f"SELECT {columns} FROM {rows} AS _kept ANTI JOIN {gone} AS _gone ON _kept.{ROW} = _gone.{ROW}"
        )
        coming = new.pop(key, None)
        whole = kept if coming is None else pa.concat_tables([kept, coming])
        replaced[key] = (batch.write(whole),) if whole.num_rows else ()
    return Rewrite(replaced, {key: (batch.write(rows),) for key, rows in new.items()})


def mutated(
    kind: str,
    catalog: Catalog,
    table: TableId,
    snapshot: TableVersion,
    now: TableVersion | None,
    change: Rewrite,
    commit_us: int,
) -> Change:
    """The commit, decided again under the table's lock."""
    if now is None or now.created_us != snapshot.created_us or now.settings.schema != snapshot.settings.schema:
        raise ConcurrentUpdate(table)
    since = catalog.history(table).versions_since(snapshot.committed_us)
    only_inserts = all(version.change == "insert" for version in since)
    after = dict(now.partitions)
    for key in (*change.replaced, *change.added):
        before, current = snapshot.partitions.get(key), now.partitions.get(key)
        if not only_inserts and _segments(before) != _segments(current):
            raise ConcurrentUpdate(table)
    for key, segments in change.replaced.items():
        known, current = snapshot.partitions[key].segments, now.partitions.get(key)
        inserted = _segments(current)[len(known) :]
        after.pop(key, None)
        if segments or inserted:
            after[key] = Partition((*segments, *inserted), commit_us)
    for key, segments in change.added.items():
        after[key] = Partition((*_segments(now.partitions.get(key)), *segments), commit_us)
    modified = len(change.replaced) + len(change.added)
    return Change(kind, now.settings, after, now.clone, modified_partitions=modified)


def truncated(table: TableId, now: TableVersion | None) -> Change:
    """TRUNCATE TABLE: all rows go, everything else stays."""
    if now is None:
        raise ConcurrentUpdate(table)
    return Change("truncate", now.settings, {}, now.clone, modified_partitions=len(now.partitions))


def _segments(partition: Partition | None) -> tuple[Segment, ...]:
    return partition.segments if partition is not None else ()
