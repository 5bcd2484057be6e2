"""Parquet footers: the Arrow schema of a writer is left out, and narrow integers are annotated as what is stored."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.parquet_footer import read_parquet_footer, with_wide_integers


def footer_of(rows: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(rows, stream, **options)
    found = read_parquet_footer(stream, len(stream.getvalue()))
    assert found
    return found


def arrow_schema(footer: bytes) -> pa.Schema:
    return pq.read_schema(pa.BufferReader(footer))


def test_a_footer_larger_than_one_request_has_the_types_of_parquet() -> None:
    columns = 700
    footer = footer_of(pa.table({f"c{number}": pa.array(["x"], pa.large_string()) for number in range(columns)}))
    assert len(footer) > 70_000
    assert arrow_schema(footer).types == [pa.string()] * columns


def test_a_text_that_looks_like_the_key_of_an_arrow_schema_changes_nothing_else() -> None:
    rows = pa.table({"c": pa.array(["ARROW:schema"], pa.large_string())})
    footer = footer_of(rows)
    assert arrow_schema(footer).types == [pa.string()]
    metadata = pq.read_metadata(pa.BufferReader(footer))
    assert metadata.row_group(0).column(0).statistics.max == "ARROW:schema"
    assert metadata.num_rows == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"a,b\n1,2\n" * 9])
def test_what_does_not_end_as_a_parquet_file_has_none(content: bytes) -> None:
    assert read_parquet_footer(io.BytesIO(content), len(content)) is None


def test_only_integers_of_8_and_16_bits_are_annotated_anew() -> None:
    kinds = {
        "u8": pa.uint8(), "i8": pa.int8(), "u16": pa.uint16(), "i16": pa.int16(), "u32": pa.uint32(), "i64": pa.int64(),
        "text": pa.string(), "price": pa.decimal128(9, 2), "at": pa.timestamp("us", tz="UTC"), "day": pa.date32(),
        "nested": pa.list_(pa.struct([("number", pa.int8()), ("label", pa.string())])),
    }  # fmt: skip
    narrow = footer_of(pa.schema(kinds).empty_table())
    wide = with_wide_integers(narrow)
    expected = {**kinds, **dict.fromkeys(("u8", "i8", "u16", "i16"), pa.int32())}
    expected["nested"] = pa.list_(pa.field("element", pa.struct([("number", pa.int32()), ("label", pa.string())])))
    assert arrow_schema(wide).remove_metadata() == pa.schema(expected)
    assert len(wide) == len(narrow)
    assert with_wide_integers(wide) == wide
