"""Writes the landed files of a shape, and the fingerprint of the right answer; keeps them for the next run.

Three deliveries: a few rows that only an old snapshot had, the newest snapshot of the state, and the arriving one.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import truth
from benchmarks.records import read_record, write_record
from benchmarks.rows import OLDEST_ID, STATE_ID, Keys, Rows, block_count, make_block, snapshot_id
from benchmarks.shape import Shape, Variant
from benchmarks.truth import Fingerprint
from dedup_clone.contract.table import TableContract
from dedup_spark.column_types import arrow_schema
from tests.spark.feed_area import FEED
from tests.spark.tables import PRODUCTS

_PROCESSES = 2
_EPOCH = date(1970, 1, 1)
_FORM = 1  # of the generator: other rows for the same shape need another number


@dataclass(frozen=True)
class Dataset:
    """`answer` is of the table after the arriving snapshot, `arriving` of the snapshot's own rows."""

    form: int
    name: str
    rows: int
    answer: Fingerprint
    arriving: Fingerprint

    def __add__(self, other: Dataset) -> Dataset:
        answer, arriving = self.answer + other.answer, self.arriving + other.arriving
        return Dataset(self.form, self.name, self.rows + other.rows, answer, arriving)


def table_of(shape: Shape) -> TableContract:
    """The reference feed's table; product_id may be text."""
    if not shape.string_keys:
        return PRODUCTS
    columns = [replace(c, type="STRING") if c.name == "product_id" else c for c in PRODUCTS.columns]
    return replace(PRODUCTS, columns=tuple(columns))


def make(shape: Shape, folder: Path, say: Callable[[str], None]) -> Dataset:
    """Files below `folder/landing`; nothing is done when they are there already."""
    record = folder / "dataset.json"
    if record.exists():
        found: Dataset = read_record(Dataset, record)
        if found.form == _FORM:
            return found
    say(f"making {shape.name}")
    shutil.rmtree(folder, ignore_errors=True)
    # Not forked from here: this process may have threads by now, of pyarrow or of Spark.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(_PROCESSES, mp_context=server) as pool:
        parts = [(number, block) for number in range(shape.dates) for block in range(block_count(shape, number))]
        made = sum(pool.map(partial(_make_block, shape, folder), parts), _empty(shape))
    write_record(record, asdict(made))
    return made


def _empty(shape: Shape) -> Dataset:
    return Dataset(_FORM, shape.name, 0, Fingerprint(), Fingerprint())


def _make_block(shape: Shape, folder: Path, part: tuple[int, int]) -> Dataset:
    date_number, block_number = part
    writer = _DateWriter(shape, folder / "landing" / FEED, shape.days()[date_number])
    block = make_block(shape, date_number, block_number)
    for delivery, rows in ((OLDEST_ID, block.old), (STATE_ID, block.before), (snapshot_id(shape), block.arriving)):
        writer.write(delivery, block_number, rows)
    return Dataset(
        _FORM, shape.name, len(block.arriving), writer.fingerprint(block.answer), writer.fingerprint(block.arriving)
    )


@dataclass(frozen=True)
class _DateWriter:
    shape: Shape
    folder: Path
    day: date

    def write(self, delivery: int, block: int, rows: Rows) -> None:
        if not len(rows):
            return
        target = self.folder / f"snapshot_id={delivery}" / f"date={self.day}"
        target.mkdir(parents=True, exist_ok=True)
        bounds = np.linspace(0, len(rows), self.shape.files_of(len(rows)) + 1).astype(int)
        for number, (start, end) in enumerate(pairwise(bounds)):
            part = self._table(rows.of(np.arange(start, end)))
            pq.write_table(part, target / f"part-{block:03}-{number:03}.parquet", compression="zstd")

    def _table(self, rows: Rows) -> pa.Table:
        keys = rows.keys
        day = pa.repeat(pa.scalar(self.day, pa.date32()), len(rows))
        product = pa.array(keys.product)
        if self.shape.string_keys:
            unique, place = np.unique(keys.product, return_inverse=True)
            product = pa.array(_texts(unique)).take(pa.array(place))
        columns = [day, product, keys.store, keys.attribute, rows.values, rows.ids]
        schema = arrow_schema(table_of(self.shape).columns)
        if self.shape.variant is Variant.NARROW:
            narrow = ("store_id", "attribute_id")
            schema = pa.schema([column.with_type(pa.int32()) if column.name in narrow else column for column in schema])
        return pa.table(
            [pa.array(column).cast(kind.type) for column, kind in zip(columns, schema, strict=True)], schema=schema
        )

    def fingerprint(self, rows: Rows) -> Fingerprint:
        keys = rows.keys
        others = [keys.store, keys.attribute, rows.values, rows.ids]
        return truth.fingerprint((self.day - _EPOCH).days, self._product_hashes(keys), others)

    def _product_hashes(self, keys: Keys) -> truth.Hashes:
        if not self.shape.string_keys:
            return truth.number_hashes(keys.product)
        unique, place = np.unique(keys.product, return_inverse=True)
        return truth.text_hashes(_texts(unique))[place]


def _texts(products: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [f"product-{number:09}" for number in products]
