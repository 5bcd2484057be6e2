"""Texts are read and hashed as they are, however a file stores them: as a dictionary, plainly, or partly so."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from tests.shared import damaged_parquet
from tests.spark.product_rows import FIRST

COLUMNS = (
    Column("day", "DATE"),
    Column("shop", "STRING"),
    Column("number", "INT64"),
    Column("note", "STRING"),
    Column("version", "INT64"),
)
SALES = TableContract(COLUMNS, "day", "version", ("shop", "number"), (), 1)
FILE = f"day={FIRST}/sales.parquet"
COUNT = 3000
NOTES = ("sold", "", "ünsold" * 300, None)
# How pyarrow writes texts.
ENCODINGS: dict[str, dict[str, Any]] = {
    "dictionaries": {},
    "several dictionaries": {"row_group_size": 700},
    "plain": {"use_dictionary": False},
    "dictionaries given up": {"dictionary_pagesize_limit": 50, "write_batch_size": 64, "data_page_size": 500},
    "deltas": {"use_dictionary": False, "column_encoding": {"shop": "DELTA_BYTE_ARRAY"}},
}


def sales(version: int, **changed: pa.Array) -> pa.Table:
    columns = {
        "day": pa.repeat(pa.scalar(FIRST), COUNT),
        "shop": pa.array([f"shop {n % 40}" for n in range(COUNT)]),
        "number": pa.array(range(COUNT)),
        "note": pa.array([NOTES[n % 4] for n in range(COUNT)]),
        "version": pa.repeat(pa.scalar(version), COUNT),
    }
    return pa.table(columns | changed)


def written(content: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    pq.write_table(content, target, store_schema=False, **options)
    return target.getvalue()


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), SALES)


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise([*ENCODINGS, "dictionaries"])))
def test_equal_texts_are_equal_however_they_are_stored(area: SparkJobFeed, before: str, after: str) -> None:
    area.publish(area.deliver(1, {FILE: written(sales(1), **ENCODINGS[before])}))
    area.publish(area.deliver(2, {FILE: written(sales(2), **ENCODINGS[after])}))
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.changed, entry.survivors) == (COUNT, 0, 0, 0)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_text_that_another_replaces_is_a_change(area: SparkJobFeed, name: str) -> None:
    """NULL instead of an empty text, too."""
    notes = sales(1)["note"].to_pylist()
    notes[0], notes[1], notes[3] = "returned", None, ""
    area.publish(area.deliver(1, {FILE: written(sales(1), **ENCODINGS[name])}))
    area.publish(area.deliver(2, {FILE: written(sales(2, note=pa.array(notes)), **ENCODINGS[name])}))
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.changed, entry.survivors) == (COUNT, 0, 3, 0)


def test_a_dictionary_that_spark_gave_up_for_deltas_is_read(area: SparkJobFeed, spark: SparkSession) -> None:
    """pyarrow cannot read such texts as a dictionary."""
    shops = pa.array([f"shop {n if n > COUNT - 100 else n % 40}" for n in range(COUNT)])
    rows = spark.createDataFrame(sales(1, shop=shops).to_pylist(), "day date, shop string, number long, note string")
    folder = Path(area.state) / "written"
    options = {
        "parquet.writer.version": "v2",
        "parquet.page.row.count.limit": "500",
        "parquet.dictionary.page.size": "800",
    }
    rows.selectExpr("*", "1L version").coalesce(1).write.options(**options).parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    chunk = pq.read_metadata(file).row_group(0).column(1)
    assert {"DELTA_BYTE_ARRAY", "RLE_DICTIONARY"} <= set(chunk.encodings)
    assert chunk.total_uncompressed_size < 4 * COUNT
    for snapshot_id, content in enumerate((file.read_bytes(), written(sales(2, shop=shops))), start=1):
        area.publish(area.deliver(snapshot_id, {FILE: content}))
    assert (area.entry(FIRST).rows, area.entry(FIRST).new_keys, area.entry(FIRST).changed) == (COUNT, 0, 0)


@pytest.mark.parametrize(("name", "is_dictionary"), [("shop", True), ("note", True), ("id", False)])
def test_only_texts_that_repeat_are_read_as_dictionaries(name: str, is_dictionary: bool) -> None:
    """To make dictionaries of others takes several times as long as to read them."""
    content = written(sales(1, id=pa.array([f"a long name {n}" for n in range(COUNT)])))
    file = storage.open_parquet(pa.BufferReader(content), texts=[name])
    assert pa.types.is_dictionary(file.schema_arrow.field(name).type) is is_dictionary


def with_dictionary(number: int, texts: list[bytes]) -> bytes:
    """A file whose notes are all the text of this number. pyarrow does not check the texts."""
    dictionary = pa.array(texts).view(pa.string())
    notes = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(number, pa.int32()), COUNT), dictionary)
    return written(sales(1, note=notes), compression="none")


# A run of 3,000 equal numbers, as Parquet writes it, before the number.
RUN = b"\xf0\x2e"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (with_dictionary(2, [b"a", b"b", b"\xff"]), "column [note]: 3000 values are not UTF-8"),
        (
            with_dictionary(2, [b"a", b"b", b"c"]).replace(RUN + b"\x02", RUN + b"\x03"),
            "column [note] has a number outside its dictionary",
        ),
    ],
    ids=["no text", "no number"],
)
def test_a_dictionary_that_is_wrong_is_refused(area: SparkJobFeed, content: bytes, said: str) -> None:
    arrival = area.deliver(1, {FILE: content})
    (refused,) = area.publish(arrival).refused
    assert said in refused.reason


def test_a_dictionary_with_a_text_twice_is_read_as_it_is(area: SparkJobFeed) -> None:
    """pyarrow merges the two, but not their numbers. It does not write such files itself."""
    content = with_dictionary(2, [b"aaaa", b"bbbb", b"cccc", b"dddd"]).replace(b"bbbb", b"aaaa")
    area.publish(area.deliver(1, {FILE: content.replace(b"parquet-cpp-arrow", b"my-parquet-writer")}))
    area.publish(area.deliver(2, {FILE: written(sales(2, note=pa.repeat(pa.scalar("cccc"), COUNT)))}))
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).changed) == (0, 0)


def test_an_enum_that_is_no_text_is_refused(area: SparkJobFeed) -> None:
    content = damaged_parquet.enum_file(sales(1, note=pa.repeat(pa.scalar("a text"), COUNT)), "note")
    area.publish(area.deliver(1, {FILE: content}))
    assert area.entry(FIRST).rows == COUNT
    notes = pa.repeat(pa.scalar(b"a \xff\xff\xfft"), COUNT).view(pa.string())
    (refused,) = area.publish(area.deliver(2, {FILE: damaged_parquet.enum_file(sales(2, note=notes), "note")})).refused
    assert "column [note]: 3000 values are not UTF-8" in refused.reason


def test_a_text_of_a_dictionary_that_no_row_has_may_be_anything(area: SparkJobFeed) -> None:
    area.publish(area.deliver(1, {FILE: with_dictionary(1, [b"a", b"b", b"\xff"])}))
    assert area.entry(FIRST).rows == COUNT
