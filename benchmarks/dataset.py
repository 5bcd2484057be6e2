"""Generates a data set: the landed files of its snapshots, and the digest of the table that results from them.

Two snapshots are published before anything is measured, and give the parent generation: the oldest snapshot, with few
rows, and the parent's newest snapshot. The arriving snapshots (one, or several in a backlog) are published while the
job is measured. Arriving snapshots have a landing folder of their own, because a correction has the same id as the
parent's newest snapshot. A data set is generated once and stays on disk for later runs.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import table_digest
from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.generated_rows import OLDEST_ID, PARENT_ID, GeneratedRows, Keys, block_count, make_block, snapshot_ids
from benchmarks.json_records import read_record, write_record
from benchmarks.row_counts import RowCounts
from benchmarks.table_digest import TableDigest
from dedup_clone.contract.table import TableContract
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import FEED
from testkit.table_contracts import PRODUCTS

# Folders of a data set into which the parent's snapshots and the arriving snapshots land.
PARENT_LANDING, ARRIVING_LANDING = "landing", "arriving"
_PROCESSES = 2
_EPOCH = date(1970, 1, 1)
GENERATOR_VERSION = 2  # increase it when the generator is changed so that a shape gives other rows than before


@dataclass(frozen=True)
class Dataset:
    """What is stored about a generated data set.

    `generator_version`: the GENERATOR_VERSION that made it. `name`: that of its DatasetShape. `rows`: the number of
    rows in the newest arriving snapshot. `expected`: the digest of the table that every peer must make from the rows of
    parent and arriving snapshots. `counts`: the right counts for a peer that counts rows.
    """

    generator_version: int
    name: str
    rows: int
    expected: TableDigest
    counts: RowCounts

    def __add__(self, other: Dataset) -> Dataset:
        expected, counts = self.expected + other.expected, self.counts + other.counts
        return Dataset(self.generator_version, self.name, self.rows + other.rows, expected, counts)


def table_contract(shape: DatasetShape) -> TableContract:
    """The contract of the data set's table. If the shape has string keys, product_id is a STRING."""
    if not shape.string_keys:
        return PRODUCTS
    columns = [replace(c, type="STRING") if c.name == "product_id" else c for c in PRODUCTS.columns]
    return replace(PRODUCTS, columns=tuple(columns))


def generate(shape: DatasetShape, folder: Path, log: Callable[[str], None]) -> Dataset:
    """Generate the files below `folder`, unless this GENERATOR_VERSION has made them. Returns the data set's record."""
    record_path = folder / "generated.json"
    if record_path.exists() and json.loads(record_path.read_text())["generator_version"] == GENERATOR_VERSION:
        record: Dataset = read_record(Dataset, record_path)
        return record
    log(f"generating {shape.name}")
    shutil.rmtree(folder, ignore_errors=True)
    # This process may have threads of pyarrow or Spark, and a fork of such a process can hang.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(_PROCESSES, mp_context=server) as pool:
        blocks = [(number, block) for number in range(shape.dates) for block in range(block_count(shape, number))]
        dataset = sum(pool.map(partial(_write_block, shape, folder), blocks), _empty(shape))
    write_record(record_path, dataset)
    return dataset


def _empty(shape: DatasetShape) -> Dataset:
    """The record of no rows, to which the records of blocks are added."""
    return Dataset(GENERATOR_VERSION, shape.name, 0, TableDigest(), RowCounts())


def _write_block(shape: DatasetShape, folder: Path, numbers: tuple[int, int]) -> Dataset:
    """Write the files of a block (see generated_rows). `numbers`: of the date and of its block, both from 0."""
    date_number, block_number = numbers
    writer = _DateWriter(shape, folder, shape.days()[date_number])
    block = make_block(shape, date_number, block_number)
    writer.write(PARENT_LANDING, OLDEST_ID, block_number, block.oldest)
    writer.write(PARENT_LANDING, PARENT_ID, block_number, block.parent)
    for snapshot_id, rows in zip(snapshot_ids(shape), block.arriving, strict=True):
        writer.write(ARRIVING_LANDING, snapshot_id, block_number, rows)
    expected = writer.digest_rows(block.expected)
    return Dataset(GENERATOR_VERSION, shape.name, len(block.arriving[-1]), expected, block.counts)


@dataclass(frozen=True)
class _DateWriter:
    """Writes Parquet files of one date, and computes digests of rows of this date."""

    shape: DatasetShape
    folder: Path
    day: date

    def write(self, landing: str, snapshot_id: int, block: int, rows: GeneratedRows) -> None:
        """Write one block's rows of a snapshot. `landing`: PARENT_LANDING or ARRIVING_LANDING. `block`: its number."""
        if not len(rows):
            return
        target = self.folder / landing / FEED / f"snapshot_id={snapshot_id}" / f"date={self.day}"
        target.mkdir(parents=True, exist_ok=True)
        bounds = np.linspace(0, len(rows), self.shape.file_count(len(rows)) + 1).astype(int)
        for number, (start, end) in enumerate(pairwise(bounds)):
            part = self._to_arrow(rows.take(np.arange(start, end)))
            pq.write_table(part, target / f"part-{block:03}-{number:03}.parquet", compression="zstd")

    def _to_arrow(self, rows: GeneratedRows) -> pa.Table:
        keys = rows.keys
        day = pa.repeat(pa.scalar(self.day, pa.date32()), len(rows))
        product = pa.array(keys.product)
        if self.shape.string_keys:
            unique, unique_index = np.unique(keys.product, return_inverse=True)
            product = pa.array(_product_names(unique)).take(pa.array(unique_index))
        columns = [day, product, keys.store, keys.attribute, rows.values, rows.ids]
        schema = arrow_schema(table_contract(self.shape).columns)
        if self.shape.variant is Variant.NARROW:
            narrow = ("store_id", "attribute_id")
            schema = pa.schema([column.with_type(pa.int32()) if column.name in narrow else column for column in schema])
        return pa.table(
            [pa.array(column).cast(schema_field.type) for column, schema_field in zip(columns, schema, strict=True)],
            schema=schema,
        )

    def digest_rows(self, rows: GeneratedRows) -> TableDigest:
        keys = rows.keys
        other_columns = [keys.store, keys.attribute, rows.values, rows.ids]
        return table_digest.digest_rows((self.day - _EPOCH).days, self._product_hashes(keys), other_columns)

    def _product_hashes(self, keys: Keys) -> table_digest.Hashes:
        if not self.shape.string_keys:
            return table_digest.number_hashes(keys.product)
        unique, unique_index = np.unique(keys.product, return_inverse=True)
        return table_digest.text_hashes(_product_names(unique))[unique_index]


def _product_names(products: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [f"product-{number:09}" for number in products]
