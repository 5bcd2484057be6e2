"""Writes the Parquet data files of dates, and says how large they should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from itertools import chain
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.attempt import MAX_TABLE_FILES
from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.landing.cluster_overlap import Range, overlapping_share
from dedup_spark.landing.file_validation import LandedFile
from dedup_spark.parent import Parent

# `row_groups` yields the rows collected so far once they have reached one of these limits.
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20


def write_file(
    table: TableContract, data_uri: str, day: date, name_prefix: str, rows: Iterable[pa.Table]
) -> DataFile | None:
    """Write the rows into one file, in their order. Return None, and write no file, if there are no rows."""
    files = write_files(table, data_uri, day, name_prefix, row_groups(rows))
    return files[0] if files else None


def write_sorted(
    table: TableContract,
    data_uri: str,
    day: date,
    name_prefix: str,
    rows: Iterable[pa.Table],
    file_bytes: int | None = None,
) -> tuple[tuple[DataFile, ...], float | None]:
    """Write the rows into sorted files, and return what `write_files` does.

    Also return the share of sorted runs (0 to 1) that overlap in the first clustering column; None without clustering.
    Rows are sorted in memory, by the clustering columns and the keys, in runs of _GROUP_ROWS or _GROUP_BYTES. A small
    date is one run. A file of a large date contains several runs, one after another.
    """
    order = [(name, "ascending") for name in dict.fromkeys([*table.cluster_by, *table.keys_of_date])]
    ranges: list[Range] = []

    def runs() -> Iterator[pa.Table]:
        for run in row_groups(rows):
            if order:
                run = run.take(pc.sort_indices(run, order))
            if table.cluster_by:
                bounds = pc.min_max(run[table.cluster_by[0]])
                ranges.extend([(bounds["min"].as_py(), bounds["max"].as_py())] if bounds["min"].is_valid else [])
            yield run
            del run  # before rows of the next one are collected

    files = write_files(table, data_uri, day, name_prefix, runs(), file_bytes)
    return files, overlapping_share([tuple(ranges)]) if table.cluster_by else None


def write_files(
    table: TableContract,
    data_uri: str,
    day: date,
    name_prefix: str,
    groups: Iterable[pa.Table],
    file_bytes: int | None = None,
) -> tuple[DataFile, ...]:
    """Write each of these tables, which have the table's Arrow schema, as row groups of their own.

    Return the files: none if there is no group. A file ends with the group that brings it to `file_bytes`; None for one
    file. Its name is `name_prefix` and a unique suffix, so a repeated Spark task writes other files.
    """
    files: list[DataFile] = []
    remaining = iter(groups)
    for first in remaining:
        path = f"{table.date_folder}={day.isoformat()}/{name_prefix}-{uuid4().hex[:12]}.parquet"
        rows = 0
        ids: list[int] = []
        stream = storage.open_output(storage.join(data_uri, path))
        parquet = pq.ParquetWriter(stream, arrow_schema(table.columns), compression="zstd", store_schema=False)
        of_file = chain([first], remaining)
        del first  # so that no group stays in memory once it is written
        for group in of_file:
            parquet.write_table(group, row_group_size=_GROUP_ROWS)
            bounds = pc.min_max(group[table.snapshot_id_column])
            ids += [bounds["min"].as_py(), bounds["max"].as_py()]
            rows += group.num_rows
            del group
            if file_bytes is not None and stream.tell() >= file_bytes:
                break
        parquet.close()
        size = int(stream.tell())
        stream.close()
        files.append(DataFile(path, day, rows, size, min(ids), max(ids)))
    return tuple(files)


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `tables`, regrouped into tables large enough for a row group; the last one may be smaller."""
    pending: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        pending.append(table)
        rows += table.num_rows
        # `nbytes` would crash the process: it reads the offsets of arrays, which Spark's empty arrays lack.
        size += table.get_total_buffer_size()
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            rows = size = 0
            yield _take_all(pending)
    if rows:
        yield _take_all(pending)


def _take_all(tables: list[pa.Table]) -> pa.Table:
    """Return the tables as one, and empty the list, so that nothing else keeps them in memory."""
    joined = pa.concat_tables(tables)
    tables.clear()
    return joined


# Half the allowed files are planned for: copied-forward dates keep the files of earlier publishes, which may be smaller
# than the target size.
_MAX_PLANNED_FILES = MAX_TABLE_FILES // 2


def target_file_bytes(requested_file_bytes: int, landed: Iterable[LandedFile], parent: Parent) -> int:
    """Return the requested file size, or a larger one if the table would have too many files of that size.

    Deliveries and parent mostly have the same keys, so the table will be about as large as the largest of them.
    `landed`: the files of all deliveries.
    """
    delivery_bytes: Counter[int] = Counter()
    for file in landed:
        delivery_bytes[file.snapshot_id] += file.size
    table_bytes = max(sum(file.size for file in parent.files), *delivery_bytes.values(), 0)
    return max(requested_file_bytes, -(-table_bytes // _MAX_PLANNED_FILES))
