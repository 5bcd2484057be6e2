"""Packed keys and their comparison: exact for every type and range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_clone.contract.table import Column
from dedup_spark.column_types import SCALARS
from dedup_spark.comparison.bucket_ranges import split_buckets
from dedup_spark.comparison.key_comparison import diff_keys, indices_of
from dedup_spark.comparison.packed_keys import pack_keys

VALUES: dict[str, list[Any]] = {
    "INT64": [-(2**63), -1, 0, 1, 2**31, 2**63 - 1],
    "narrow": [5, 6, 7, 1000],
    "STRING": ["", "a", "ab", "é", "\x00"],
    "BYTES": [b"", b"\x00", b"\xff", b"a" * 2000],
    "BOOL": [False, True],
    "NUMERIC": [Decimal("-0.000000001"), Decimal(0), Decimal(10) ** 28],
    "DATE": [date(1, 1, 1), date(9999, 12, 31), date(2026, 3, 1) + timedelta(days=1)],
}


@pytest.mark.parametrize(
    "types",
    [
        ("narrow",),
        ("narrow", "BOOL", "narrow"),
        ("INT64",),
        ("INT64", "INT64"),
        ("INT64", "DATE", "INT64", "INT64"),
        ("STRING", "BYTES", "NUMERIC", "narrow"),
        ("BOOL", "INT64", "STRING", "INT64"),
    ],
    ids=" ".join,
)
def test_packed_keys_are_equal_exactly_where_keys_are(types: tuple[str, ...]) -> None:
    random = Random(str(types))
    keys = [tuple(random.choice(VALUES[kind]) for kind in types) for _ in range(400)]
    columns = tuple(Column(f"c{n}", kind if kind in SCALARS else "INT64") for n, kind in enumerate(types))
    cuts = [0, 150, 150, 400]
    parts = [
        [
            pa.chunked_array(
                [
                    pa.array([key[n] for key in keys[start:stop]][half::2], SCALARS[column.type].in_arrow)
                    for half in (0, 1)
                ]
            )
            for n, column in enumerate(columns)
        ]
        for start, stop in pairwise(cuts)
    ]
    ordered = [key for start, stop in pairwise(cuts) for half in (0, 1) for key in keys[start:stop][half::2]]
    packed = pack_keys(columns, parts)
    found = np.concatenate(packed.lists).tolist()
    assert [len(part) for part in packed.lists] == [150, 0, 250]
    assert len(set(zip(ordered, found, strict=True))) == len(set(ordered)) == len(set(found))
    assert max(found) < 2**63
    assert packed.has_ranks == (types not in [("narrow",), ("narrow", "BOOL", "narrow")])


def test_without_rows_there_are_no_packed_keys() -> None:
    columns = (Column("a", "INT64"), Column("b", "STRING"))
    empty = [pa.chunked_array([], SCALARS[c.type].in_arrow) for c in columns]
    assert [len(part) for part in pack_keys(columns, [empty, empty]).lists] == [0, 0]


def _keys(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize("seed", range(30))
def test_comparison_equals_plain_set_arithmetic(seed: int) -> None:
    random = Random(seed)
    top = 2**63 - 1
    new = [random.choice([random.randrange(40), top - random.randrange(5)]) for _ in range(random.randrange(60))]
    old = [random.choice([random.randrange(40), top - random.randrange(5)]) for _ in range(random.randrange(60))]
    found = diff_keys(_keys(new), _keys(old), 3)
    assert Counter(found.surplus.tolist()) == Counter(new) - Counter(set(new))
    assert found.missing.tolist() == sorted(set(old) - set(new))
    assert found.added_count == len(set(new) - set(old))
    assert found.added_sample.tolist() == sorted(set(new) - set(old))[:3]
    wanted = found.missing
    assert indices_of(_keys(old), wanted).tolist() == [n for n, key in enumerate(old) if key in set(wanted.tolist())]


def test_ranges_cover_every_bucket_with_rows_once() -> None:
    for rows in ([0.0, 5, 0, 7, 1], [100.0] * 16, [0.0] * 15 + [1.0], [1000.0, 0, 0, 0]):
        parts = split_buckets(np.array(rows), limit=6)
        covered = Counter(bucket for part in parts for bucket in range(part.start, part.stop))
        assert all(covered[bucket] == 1 for bucket, count in enumerate(rows) if count)
    assert split_buckets(np.zeros(4), 6) == []
