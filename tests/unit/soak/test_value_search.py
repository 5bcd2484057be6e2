"""The search for an erased value finds it in every form in which a stack may have written it."""

from __future__ import annotations

import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from soak.value_search import contains

VALUE = 1_234_567_890_123_456_789


def parquet(*values: int) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"key": pa.array(values, pa.int64())}), stream, compression="zstd")
    return stream.getvalue()


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda value: f"key={value};".encode(), id="text"),
        pytest.param(lambda value: b"x" + value.to_bytes(8, "little"), id="bytes"),
        pytest.param(lambda value: gzip.compress(f"{value}".encode()), id="gzip"),
        pytest.param(lambda value: zstd(b"a") + zstd(f"{value}".encode()), id="second frame"),
        pytest.param(lambda value: zstd(f"{value} ".encode()) + b"\x28\xb5\x2f\xfd", id="cut off"),
        pytest.param(lambda value: parquet(7, value), id="Parquet"),
    ],
)
def test_a_value_is_found_in_every_form_and_other_values_are_not(wrap: object) -> None:
    assert callable(wrap)
    assert contains(wrap(VALUE), VALUE)
    assert not contains(wrap(VALUE - 1), VALUE)
