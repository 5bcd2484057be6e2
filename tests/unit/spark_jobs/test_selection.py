"""Which rows of differing buckets are compared, against plain sets: nothing that differs is ever left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_clone.contract.table import Column
from dedup_spark.adopt import selection
from dedup_spark.adopt.selection import SINGLE, WHOLE, Selection, select
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.hashing import KeyHasher

BITS = 4
HASHER = KeyHasher((Column("key", "INT64"),))


def fingerprints(keys: list[int]) -> BucketFingerprints:
    found = BucketFingerprints.empty(BITS)
    found.add(*HASHER.both([pa.array(keys, pa.int64())]))
    return found


def both(keys: list[int], chosen: Selection) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the keys that are looked up one by one."""
    first, second = HASHER.both([pa.array(keys, pa.int64())])
    wanted = np.intersect1d(chosen.rows(first).picked, chosen.single_rows(first))
    return first[wanted], second[wanted]


def compared(keys: list[int], chosen: Selection) -> Counter[int]:
    (first, _) = HASHER.both([pa.array(keys, pa.int64())])
    return Counter(keys[row] for row in chosen.rows(first).picked)


@pytest.fixture(autouse=True)
def nothing_compared_for_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_SAMPLED", 0)


KEYS = st.sets(st.integers(0, 400), max_size=250)


@settings(max_examples=200, deadline=None)
@given(base=KEYS, gone=st.sets(st.integers(0, 400), max_size=12), come=st.lists(st.integers(0, 400), max_size=12))
def test_rows_that_are_not_compared_are_the_same_on_both_sides(base: set[int], gone: set[int], come: list[int]) -> None:
    """`come` may repeat keys, among themselves and of those that are there already."""
    old, new = sorted(base), [*sorted(base - gone), *come]
    chosen = select(fingerprints(new), fingerprints(old))
    chosen = chosen.with_kind(WHOLE, chosen.unexplained(both(new, chosen), both(old, chosen)))
    assert Counter(new) - compared(new, chosen) == Counter(old) - compared(old, chosen)


def test_one_missing_key_of_a_bucket_is_compared_alone() -> None:
    old = list(range(100))
    chosen = select(fingerprints(old[1:]), fingerprints(old))
    assert (compared(old[1:], chosen), compared(old, chosen)) == (Counter(), Counter([0]))
    assert not len(chosen.unexplained(both(old[1:], chosen), both(old, chosen)))


def test_repeated_key_is_compared_with_the_one_that_it_repeats() -> None:
    old, new = list(range(100)), [*range(100), 7]
    chosen = select(fingerprints(new), fingerprints(old))
    assert (chosen.kinds == SINGLE).sum() == 1
    assert (compared(new, chosen), compared(old, chosen)) == (Counter([7, 7]), Counter([7]))
    assert not len(chosen.unexplained(both(new, chosen), both(old, chosen)))


def test_rows_of_open_buckets_are_compared_or_counted() -> None:
    old = list(range(100))
    chosen = select(fingerprints(old[1:]), fingerprints(old))
    (first, _) = HASHER.both([pa.array(old, pa.int64())])
    rows = chosen.rows(first)
    assert sorted([*rows.picked, *rows.counted]) == list(chosen.open_rows(first))
    assert len(rows.counted) == chosen.single_rows(first).size - 1


def test_three_keys_that_differ_in_one_bucket_are_not_taken_for_one() -> None:
    by_bucket: dict[int, list[int]] = {}
    for key, bucket in enumerate(bucket_of(HASHER.both([pa.array(range(400), pa.int64())])[0], BITS)):
        by_bucket.setdefault(int(bucket), []).append(key)
    for bucket, (one, two, three, *_) in by_bucket.items():
        old = [key for key in range(400) if key != three]
        new = [key for key in range(400) if key not in (one, two)]
        chosen = select(fingerprints(new), fingerprints(old))
        left = chosen.unexplained(both(new, chosen), both(old, chosen))
        assert chosen.kinds[bucket] == WHOLE or list(left) == [bucket]
