"""Computes the blocks of a clustered table: rows in the order of the clustering columns, cut into pieces of about 1 MB.

The rows of one write are sorted among themselves. Automatic re-clustering sorts all rows of a partition together, once
the partition has not changed for a while. Blocks are an index over the segments: Parquet files, which stay as they were
written. Source: BigQuery's page "Introduction to clustered tables". It gives neither the size of a block nor when
re-clustering happens: the stand-in uses BLOCK_BYTES and RECLUSTERING_US.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from devstack.bigquery.storage.arrow_schema import conform
from devstack.bigquery.storage.model import Partition, Segment, TableSettings
from devstack.bigquery.storage.segment_store import SegmentStore

BLOCK_BYTES = 1 << 20
# BigQuery sorts only by this many first characters of a STRING, so the bounds of a block are cut there. Source: the
# same page, limitations.
SORTED_CHARACTERS = 1024
_LAST_CHARACTER = "\U0010ffff"
_MAXIMUM_CACHED_GROUPS = 1024

GroupKey = tuple[tuple[str, ...], tuple[str, ...]]  # the files that are sorted together, and the clustering columns


@dataclass(frozen=True)
class Blocks:
    """The blocks of segments that are sorted together.

    `starts`: the number of rows before each block; the last element is the number of all rows. `bounds`: a row for each
    block, with `low_N`, `high_N` and `nulls_N` (whether it has a NULL) of clustering column N (from 0).
    """

    segments: tuple[Segment, ...]
    starts: tuple[int, ...]
    bounds: pa.Table

    def bytes(self, numbers: Iterable[int], columns: Iterable[str]) -> int:
        """The bytes of these columns in these blocks, estimated from the blocks' shares of the rows.

        `numbers`: those of the blocks, counted from 0.
        """
        totals = [sum(segment.column_bytes.get(column, 0) for segment in self.segments) for column in columns]
        rows = self.starts[-1]
        return sum(
            total * self.starts[number + 1] // rows - total * self.starts[number] // rows
            for number in numbers
            for total in totals
        )


class BlockIndex:
    """The blocks of all segments, computed when a query first asks for them. Threads may share it."""

    def __init__(self, segments: SegmentStore) -> None:
        self._segments = segments
        self._cache: OrderedDict[GroupKey, Blocks] = OrderedDict()

    def blocks(self, settings: TableSettings, partition: Partition, now_us: int) -> list[Blocks]:
        """The blocks of one partition at this time. The caller must have pinned the partition's segments."""
        reclustered = partition.reclustered_segments_at(now_us)
        groups = [partition.segments[:reclustered], *((segment,) for segment in partition.segments[reclustered:])]
        return [self._group(settings, group) for group in groups if any(segment.rows for segment in group)]

    def _group(self, settings: TableSettings, group: tuple[Segment, ...]) -> Blocks:
        key = (tuple(segment.file for segment in group), settings.clustering)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._compute(settings, group)
            if len(self._cache) > _MAXIMUM_CACHED_GROUPS:
                self._cache.popitem(last=False)
        return found

    def _compute(self, settings: TableSettings, group: tuple[Segment, ...]) -> Blocks:
        columns = [column for name in settings.clustering if (column := settings.column(name)) is not None]
        rows = pa.concat_tables(
            conform(_read_columns(self._segments, segment, settings.clustering), columns) for segment in group
        )
        order = pc.sort_indices(rows, sort_keys=[(column.name, "ascending") for column in columns])
        block_count = max(1, min(sum(segment.bytes for segment in group) // BLOCK_BYTES, rows.num_rows))
        starts = tuple(rows.num_rows * number // block_count for number in range(block_count + 1))
        rows = rows.take(order)
        return Blocks(group, starts, _bounds(rows, starts))


def _read_columns(store: SegmentStore, segment: Segment, names: Sequence[str]) -> pa.Table:
    lower_names = {name.lower() for name in names}
    with pq.ParquetFile(store.path(segment)) as file:
        return file.read([name for name in file.schema_arrow.names if name.lower() in lower_names])


def _bounds(rows: pa.Table, starts: Sequence[int]) -> pa.Table:
    found: dict[str, pa.Array] = {}
    for position, name in enumerate(rows.column_names):
        values = rows.column(name)
        parts = [values.slice(first, end - first) for first, end in pairwise(starts)]
        bounds = [pc.min_max(part) for part in parts]
        is_text = pa.types.is_string(values.type)
        lows, highs = ([bound[key].as_py() for bound in bounds] for key in ("min", "max"))
        found[f"low_{position}"] = pa.array([low[:SORTED_CHARACTERS] if is_text and low else low for low in lows])
        found[f"high_{position}"] = pa.array([_truncated_high(high) if is_text and high else high for high in highs])
        found[f"nulls_{position}"] = pa.array([part.null_count > 0 for part in parts])
        for end in ("low", "high"):
            found[f"{end}_{position}"] = found[f"{end}_{position}"].cast(values.type)
    return pa.table(found)


def _truncated_high(high: str) -> str:
    return high if len(high) <= SORTED_CHARACTERS else high[:SORTED_CHARACTERS] + _LAST_CHARACTER
