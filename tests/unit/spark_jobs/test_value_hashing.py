"""Hashes of values: equal exactly where the contract calls rows of one key equal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.value_hashing import ValueHasher

SEED = Seed(b"a secret")

REPEATED = ColumnMode.REPEATED
PAIR = (Column("a", "INT64"), Column("b", "STRING"))
DISTINCT: dict[str, tuple[Column, list[Any]]] = {
    "INT64": (Column("v", "INT64"), [None, 0, 1, -1, 2**63 - 1]),
    "FLOAT64": (Column("v", "FLOAT64"), [None, 0.0, 1.5, float("nan"), float("inf"), -float("inf")]),
    "STRING": (Column("v", "STRING"), [None, "", "a", "aa", "x" * 5000, "x" * 4999]),
    "BYTES": (Column("v", "BYTES"), [None, b"", b"\x00", b"\x00\x00"]),
    "BOOL": (Column("v", "BOOL"), [None, False, True]),
    "DATE": (Column("v", "DATE"), [None, date(1970, 1, 1), date(2026, 1, 1)]),
    "TIMESTAMP": (Column("v", "TIMESTAMP"), [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    "DATETIME": (Column("v", "DATETIME"), [None, datetime(1970, 1, 1), datetime(2026, 1, 1)]),  # noqa: DTZ001
    "NUMERIC": (Column("v", "NUMERIC"), [None, Decimal(0), Decimal("0.000000001"), Decimal("-1E28")]),
    "STRUCT": (
        Column("v", "STRUCT", fields=PAIR),
        [None, {"a": None, "b": None}, {"a": 0, "b": None}, {"a": 0, "b": ""}, {"a": None, "b": "0"}],
    ),
    "ARRAY": (Column("v", "INT64", REPEATED), [[], [0], [0, 0], [0, 1], [1, 0], [None], [None, 0]]),
    "ARRAY of STRING": (Column("v", "STRING", REPEATED), [[], [""], ["ab"], ["a", "b"], ["b", "a"], ["", "ab"]]),
    "ARRAY of STRUCT": (
        Column("v", "STRUCT", REPEATED, (Column("a", "INT64"), Column("inner", "STRING", REPEATED))),
        [[], [{"a": 1, "inner": []}], [{"a": 1, "inner": ["x"]}], [{"a": 1, "inner": []}, {"a": 1, "inner": ["x"]}]],
    ),
}


def hashes(column: Column, values: Sequence[Any], keys: Sequence[int] | None = None) -> list[int]:
    array = pa.array(values, arrow_schema((column,)).field(0).type)
    first = np.array(keys or [7] * len(values), dtype=np.uint64)
    return ValueHasher((column,), SEED).hash(first, [array]).tolist()


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_values_have_distinct_hashes_and_equal_ones_the_same(name: str) -> None:
    column, values = DISTINCT[name]
    assert len(set(hashes(column, values))) == len(values)
    assert hashes(column, values * 2) == hashes(column, values) * 2
    assert hashes(column, values[::-1]) == hashes(column, values)[::-1]


@pytest.mark.parametrize("name", DISTINCT)
def test_slices_hash_as_their_own_rows(name: str) -> None:
    column, values = DISTINCT[name]
    array = pa.array(values * 3, arrow_schema((column,)).field(0).type).slice(1, len(values))
    first = np.full(len(array), 7, dtype=np.uint64)
    assert ValueHasher((column,), SEED).hash(first, [array]).tolist() == hashes(
        column, (values * 3)[1 : 1 + len(values)]
    )


def test_an_array_that_is_null_has_the_hash_of_an_empty_one() -> None:
    inner = Column("v", "STRUCT", fields=(Column("items", "STRING", REPEATED),))
    for column, empty, null in ((DISTINCT["ARRAY"][0], [], None), (inner, {"items": []}, {"items": None})):
        assert len(set(hashes(column, [empty, null]))) == 1


def test_numbers_that_the_contract_calls_equal_have_equal_hashes() -> None:
    zero, minus_zero, one_nan, other_nan = hashes(
        Column("v", "FLOAT64"), [0.0, -0.0, float("nan"), float(np.array([0xFFF8000000000001], "u8").view("f8")[0])]
    )
    assert (zero, one_nan) == (minus_zero, other_nan)


def test_equal_values_of_other_keys_have_other_hashes() -> None:
    assert len(set(hashes(Column("v", "INT64"), [5, 5, 5], [1, 2, 3]))) == 3


def test_without_value_columns_the_key_alone_decides() -> None:
    first = np.arange(5, dtype=np.uint64)
    assert len(set(ValueHasher((), SEED).hash(first, []).tolist())) == 5
