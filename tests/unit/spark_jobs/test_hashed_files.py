"""Which files the first pass over an input caches, so that later passes need not read them again."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.hashed_files import HashedFiles, RowHashers
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.memory_budget import MemoryBudget
from dedup_spark.fingerprints.seed import Seed
from testkit.table_contracts import PRODUCTS

# About the bytes of a row in memory: three key columns, and room for two hashes.
ROW_BYTES = (3 + 2) * 8


def write(path: Path, rows: int) -> str:
    """A file with row groups of ten rows, each of which is read as a batch."""
    values = {"date": date(2026, 3, 1), "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": 1}
    content = pa.Table.from_pylist([{"product_id": n, **values} for n in range(rows)], arrow_schema(PRODUCTS.columns))
    pq.write_table(content, path, row_group_size=10)
    return str(path)


def test_file_too_large_for_the_cache_leaves_it_to_other_files(tmp_path: Path) -> None:
    uris = [write(tmp_path / "large.parquet", 150), write(tmp_path / "small.parquet", 100)]
    hashers = RowHashers.for_table(PRODUCTS, Seed(b"a secret"), compare_values=False)
    reader = KeyReader(PRODUCTS)
    files = HashedFiles(reader, hashers, uris, [1, 1], MemoryBudget(120 * ROW_BYTES))
    for number in (0, 1):
        assert sum(hashed.batch.rows for hashed, _ in files.first_pass(number)) == (150, 100)[number]
    read_once = reader.bytes_read
    assert sum(hashed.batch.rows for hashed in files.second_pass(1, with_values=False)) == 100
    assert reader.bytes_read == read_once
    assert sum(hashed.batch.rows for hashed in files.second_pass(0, with_values=False)) == 150
    assert reader.bytes_read > read_once
