"""Chooses how the rows of a date become words: as few words as the ranges of its numbers allow.

The ranges come from the parent's stored sketch, or else from the files' footers. A footer may be wrong, and later rows
may have other numbers. So an encoder that meets a number outside its ranges is replaced by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq

from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Sketch

# At most this many footers are read to find the ranges of numbers in all files.
_MAX_FOOTERS = 32

Bounds = dict[str, tuple[int, int]]


def wide_encoder(reader: KeyReader, seed: Seed) -> RowEncoder:
    """The encoder that takes all rows of the reader's table."""
    return RowEncoder(key_columns(reader.table), reader.table.value_columns, seed)


def encoders(reader: KeyReader, seed: Seed, stored: Sketch | None, uris: Sequence[str]) -> Iterator[RowEncoder]:
    """Yield the encoders to try until one does not raise OutOfSpan. The last takes all rows.

    `stored`: the parent's stored sketch; its encoder comes first. `uris`: the files of deliveries and parent. Raises
    what the reader of a damaged footer raises.
    """
    wide = wide_encoder(reader, seed)
    if stored:
        yield stored.encoder
    if wide.has_packable_types:
        sample = uris[:: -(-len(uris) // _MAX_FOOTERS) or 1]
        yield wide.narrowed(_common_bounds([_bounds(reader.metadata(uri)) for uri in sample]))
    yield wide


def _common_bounds(found: Sequence[Bounds]) -> Bounds:
    """The bounds of those columns that have bounds in all files."""
    names = set.intersection(*(set(bounds) for bounds in found)) if found else set()
    return {name: (min(b[name][0] for b in found), max(b[name][1] for b in found)) for name in names}


def _bounds(metadata: pq.FileMetaData) -> Bounds:
    """The lowest and the highest value of each column of integers, as the footer says."""
    bounds: Bounds = {}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            name, statistics = chunk.path_in_schema, chunk.statistics
            if statistics is None or not statistics.has_min_max or type(statistics.min) is not int:
                unknown.add(name)
                continue
            least, greatest = bounds.get(name, (statistics.min, statistics.max))
            bounds[name] = min(least, statistics.min), max(greatest, statistics.max)
    return {name: found for name, found in bounds.items() if name not in unknown}
