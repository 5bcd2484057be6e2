"""The search for an erased value finds it in every form in which a stack may have written it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testkit.value_search import Value, contains

NUMBER, OTHER_NUMBER = 1_234_567_890_123_456_789, 1_234_567_890_123_456_788
TEXT, OTHER_TEXT = "customer-8d1f6a07", "customer-8d1f6a08"


def parquet(values: pa.Array) -> bytes:
    """A compressed file without statistics, in which the values are not found as they are."""
    stream = io.BytesIO()
    pq.write_table(pa.table({"key": values}), stream, compression="zstd", write_statistics=False)
    return stream.getvalue()


def column(value: Value) -> pa.Array:
    many = [value] * 3
    return pa.array(["customer-8d1f6a00" * 20, *many] if isinstance(value, str) else [7, *many])


def nested(value: Value) -> pa.Array:
    values = column(value)
    return pa.array([{"rows": [{"key": item}]} for item in values.to_pylist()])


def with_unused_entry(text: str) -> pa.Array:
    """A column whose dictionary has the text, but no row."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), column(text).slice(0, 2))


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda value: f"key={value};".encode(), id="text"),
        pytest.param(lambda value: gzip.compress(f"{value}".encode()), id="gzip"),
        pytest.param(lambda value: zstd(b"a") + zstd(f"{value}".encode()), id="second frame"),
        pytest.param(lambda value: zstd(f"{value} ".encode()) + b"\x28\xb5\x2f\xfd", id="cut off"),
        pytest.param(lambda value: parquet(column(value)), id="Parquet"),
        pytest.param(lambda value: parquet(nested(value)), id="nested in Parquet"),
    ],
)
@pytest.mark.parametrize(("value", "other"), [(NUMBER, OTHER_NUMBER), (TEXT, OTHER_TEXT)])
def test_a_value_is_found_in_every_form_and_other_values_are_not(
    wrap: Callable[[Value], bytes], value: Value, other: Value
) -> None:
    assert contains(wrap(value), value)
    assert not contains(wrap(other), value)


def test_of_a_parquet_file_that_was_cut_off_the_bytes_are_searched_as_they_are() -> None:
    whole = parquet(column(TEXT))
    for end in (4, len(whole) // 2, len(whole) - 1):
        assert not contains(whole[:end], TEXT)
        assert contains(whole[:end] + TEXT.encode(), TEXT)


def test_eight_bytes_are_found_as_a_number() -> None:
    assert contains(b"x" + NUMBER.to_bytes(8, "little"), NUMBER)
    assert contains(b"x" + NUMBER.to_bytes(8, "big"), NUMBER)


def test_an_entry_of_a_dictionary_is_found_although_no_row_has_it() -> None:
    content = parquet(with_unused_entry(TEXT))
    assert TEXT.encode() not in content
    assert contains(content, TEXT)
    assert not contains(parquet(with_unused_entry(OTHER_TEXT)), TEXT)
