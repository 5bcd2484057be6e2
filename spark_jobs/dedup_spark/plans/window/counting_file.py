"""Writes one Parquet file of plan `window`, and counts new, changed, surviving and surplus rows for the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.arrow_cast import cast_table
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.plans.window.helper_columns import CHANGED, IN_PARENT, NEWEST, SOURCE, SURPLUS

# Large row groups compress better and are read with fewer requests; a task has one in memory.
_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 128 << 20


class CountingFile:
    """One output file. Call `add` with its rows, in batches with the helper columns, and then `close`.

    Sources are numbered: the parent is 0, the applied deliveries follow, the newest last. `newest_source`: the highest
    number of a source that has the date; a row whose key this source lacks is a survivor. `delivery_count`: the number
    of applied deliveries. `examples`: for each kind of difference from the parent the keys, as text, of some rows that
    differ in this way.
    """

    def __init__(
        self, data_uri: str, path: str, schema: pa.Schema, table: TableContract, newest_source: int, delivery_count: int
    ) -> None:
        self._path = path
        self._schema = schema
        self._table = table
        self._newest_source = newest_source
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._counts = dict.fromkeys(("rows", "new_keys", "changed", "survivors"), 0)
        self._surplus_rows = np.zeros(delivery_count + 1, dtype=np.int64)
        self._ids: list[tuple[int, int]] = []
        self.examples: dict[Difference, list[str]] = {difference: [] for difference in Difference}
        self._stream = storage.open_output(storage.join(data_uri, path))
        self._parquet = pq.ParquetWriter(self._stream, schema, compression="zstd", store_schema=False)

    def add(self, rows: pa.RecordBatch) -> None:
        """Count the rows, and write all except surplus rows."""
        surplus = rows.column(SURPLUS)
        if surplus.true_count:
            sources = rows.filter(surplus).column(SOURCE).to_numpy()
            self._surplus_rows += np.bincount(sources, minlength=len(self._surplus_rows))
            rows = rows.filter(pc.invert(surplus))
        if rows.num_rows:
            self._count(rows)
            self._pending.append(rows.select(self._schema.names))
            self._pending_rows += rows.num_rows
            # `nbytes` would crash the process: it reads the offsets of arrays, which Spark's empty arrays lack.
            self._pending_bytes += rows.get_total_buffer_size()
        if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def _count(self, rows: pa.RecordBatch) -> None:
        self._counts["rows"] += rows.num_rows
        self._count_difference(Difference.NEW, "new_keys", pc.invert(rows.column(IN_PARENT)), rows)
        self._count_difference(Difference.CHANGED, "changed", rows.column(CHANGED), rows)
        survivors = pc.less(rows.column(NEWEST), self._newest_source)
        self._count_difference(Difference.SURVIVOR, "survivors", survivors, rows)
        bounds = pc.min_max(rows.column(self._table.snapshot_id_column))
        self._ids.append((bounds["min"].as_py(), bounds["max"].as_py()))

    def _count_difference(self, kind: Difference, counter: str, differs: pa.BooleanArray, rows: pa.RecordBatch) -> None:
        count = differs.true_count
        self._counts[counter] += count
        needed_examples = EXAMPLES_PER_DATE - len(self.examples[kind])
        if count and needed_examples > 0:
            some = rows.take(pc.indices_nonzero(differs)[:needed_examples])
            columns = [some.column(column.name).to_pylist() for column in key_columns(self._table)]
            self.examples[kind] += key_texts(self._table, columns)

    def _write_row_group(self) -> None:
        group = cast_table(pa.Table.from_batches(self._pending), self._schema)
        self._parquet.write_table(group, row_group_size=group.num_rows)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> dict[str, Any]:
        """Finish the file. Return its path, its size in bytes, its range of update ids, and its counts of rows."""
        if self._pending:
            self._write_row_group()
        self._parquet.close()
        size = self._stream.tell()
        self._stream.close()
        return {
            "path": self._path,
            "size": size,
            "min_update_id": min(low for low, _ in self._ids),
            "max_update_id": max(high for _, high in self._ids),
            "surplus_rows": self._surplus_rows.tolist(),
            **self._counts,
        }
