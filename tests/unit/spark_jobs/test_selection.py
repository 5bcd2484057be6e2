"""Which rows of differing buckets are compared, and how many changed, against plain sets."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_clone.contract.table import Column
from dedup_spark.comparison import bucket_selection, spilled_hashes
from dedup_spark.comparison.bucket_selection import (
    ALL_KEYS,
    ONE_KEY,
    SUB_BUCKETS,
    BucketSelection,
    select_differing_keys,
)
from dedup_spark.comparison.changed_rows import count_missing
from dedup_spark.comparison.spilled_hashes import ChangedRowsCounter, SpillableHashes
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.sub_buckets import SubBucketSums, sub_bucket_bits
from tests.thoroughness import times

BITS = 4
HASHER = KeyHasher((Column("key", "INT64"),), Seed(b"a secret"))


def fingerprints(keys: list[int]) -> BucketFingerprints:
    found = BucketFingerprints.empty(BITS)
    found.add(*HASHER.both([pa.array(keys, pa.int64())]))
    return found


def narrowed_hashes(keys: list[int], selection: BucketSelection) -> tuple[np.ndarray, np.ndarray]:
    """Both hashes of the compared keys in narrowed buckets."""
    first, second = HASHER.both([pa.array(keys, pa.int64())])
    wanted = np.intersect1d(selection.select_rows(first).selected, selection.narrowed_rows(first))
    return first[wanted], second[wanted]


def compared(keys: list[int], selection: BucketSelection) -> Counter[int]:
    (first, _) = HASHER.both([pa.array(keys, pa.int64())])
    return Counter(keys[row] for row in selection.select_rows(first).selected)


@pytest.fixture(autouse=True)
def no_bucket_compared_for_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_selection, "_EXAMPLE_BUCKETS", 0)


KEYS = st.sets(st.integers(0, 400), max_size=250)


@settings(max_examples=times(50, 1000), deadline=None)
@given(base=KEYS, gone=st.sets(st.integers(0, 400), max_size=12), come=st.lists(st.integers(0, 400), max_size=12))
def test_rows_that_are_not_compared_are_the_same_in_both_inputs(
    base: set[int], gone: set[int], come: list[int]
) -> None:
    """`come` may repeat keys, its own and those of `base`."""
    old, new = sorted(base), [*sorted(base - gone), *come]
    selection = select_differing_keys(fingerprints(new), [fingerprints(old)], has_base=True)
    selection = selection.with_kind(
        ALL_KEYS, selection.unexplained(narrowed_hashes(new, selection), [narrowed_hashes(old, selection)])
    )
    assert Counter(new) - compared(new, selection) == Counter(old) - compared(old, selection)


@settings(max_examples=times(50, 1000), deadline=None)
@given(base=KEYS, newest=st.sets(st.integers(0, 400), max_size=12), older=st.lists(KEYS, min_size=1, max_size=2))
def test_rows_that_are_not_compared_are_the_same_in_all_inputs(
    base: set[int], newest: set[int], older: list[set[int]]
) -> None:
    """Older deliveries lack and add keys of their own; all that differs between any two inputs is compared in each."""
    new = sorted(base ^ newest)
    others = [sorted(base), *(sorted(base ^ set(list(keys)[:9])) for keys in older)]
    selection = select_differing_keys(fingerprints(new), list(map(fingerprints, others)), has_base=True)
    hashes = [narrowed_hashes(keys, selection) for keys in others]
    selection = selection.with_kind(ALL_KEYS, selection.unexplained(narrowed_hashes(new, selection), hashes))
    for other in others:
        assert Counter(new) - compared(new, selection) == Counter(other) - compared(other, selection)


def test_one_missing_key_of_a_bucket_is_compared_alone() -> None:
    old = list(range(100))
    selection = select_differing_keys(fingerprints(old[1:]), [fingerprints(old)], has_base=True)
    assert (compared(old[1:], selection), compared(old, selection)) == (Counter(), Counter([0]))
    assert not len(selection.unexplained(narrowed_hashes(old[1:], selection), [narrowed_hashes(old, selection)]))


def test_repeated_key_is_compared_with_the_one_that_it_repeats() -> None:
    old, new = list(range(100)), [*range(100), 7]
    selection = select_differing_keys(fingerprints(new), [fingerprints(old)], has_base=True)
    assert (selection.kinds == ONE_KEY).sum() == 1
    assert (compared(new, selection), compared(old, selection)) == (Counter([7, 7]), Counter([7]))
    assert not len(selection.unexplained(narrowed_hashes(new, selection), [narrowed_hashes(old, selection)]))


def test_three_differing_keys_of_a_bucket_are_not_taken_for_one() -> None:
    by_bucket: dict[int, list[int]] = {}
    for key, bucket in enumerate(bucket_of(HASHER.both([pa.array(range(400), pa.int64())])[0], BITS)):
        by_bucket.setdefault(int(bucket), []).append(key)
    for bucket, (one, two, three, *_) in by_bucket.items():
        old = [key for key in range(400) if key != three]
        new = [key for key in range(400) if key not in (one, two)]
        selection = select_differing_keys(fingerprints(new), [fingerprints(old)], has_base=True)
        left = selection.unexplained(narrowed_hashes(new, selection), [narrowed_hashes(old, selection)])
        assert selection.kinds[bucket] == ALL_KEYS or list(left) == [bucket]


def sums_of(keys: list[int]) -> SubBucketSums:
    sums = SubBucketSums(sub_bucket_bits(BITS))
    sums.add(HASHER.both([pa.array(keys, pa.int64())])[0])
    return sums


def narrowed(old: list[int], new: list[int]) -> BucketSelection:
    sums = sums_of(new)
    sums.remove(HASHER.both([pa.array(old, pa.int64())])[0])
    selection = select_differing_keys(fingerprints(new), [fingerprints(old)], has_base=True)
    return selection.narrowed(sums.differing())


@settings(max_examples=times(50, 1000), deadline=None)
@given(base=KEYS, gone=st.sets(st.integers(0, 400), max_size=60), come=st.lists(st.integers(0, 400), max_size=60))
def test_rows_outside_differing_sub_buckets_are_the_same_in_both_inputs(
    base: set[int], gone: set[int], come: list[int]
) -> None:
    old, new = sorted(base), [*sorted(base - gone), *come]
    selection = narrowed(old, new)
    left = selection.unexplained(narrowed_hashes(new, selection), [narrowed_hashes(old, selection)])
    assert SUB_BUCKETS not in selection.kinds[left]
    selection = selection.with_kind(ALL_KEYS, left)
    assert Counter(new) - compared(new, selection) == Counter(old) - compared(old, selection)


@settings(max_examples=times(50, 1000), deadline=None)
@given(base=KEYS, changes=st.lists(st.sets(st.integers(0, 400), max_size=60), min_size=2, max_size=4))
def test_rows_outside_sub_buckets_that_differ_in_any_pair_are_the_same_in_all_inputs(
    base: set[int], changes: list[set[int]]
) -> None:
    newest, *others = [sorted(base ^ change) for change in changes]
    of_newest = sums_of(newest)
    sub_buckets = []
    for other in others:
        sums = of_newest.copy()
        sums.remove(HASHER.both([pa.array(other, pa.int64())])[0])
        sub_buckets.append(sums.differing())
    selection = select_differing_keys(fingerprints(newest), list(map(fingerprints, others)), has_base=True)
    selection = selection.narrowed(reduce(or_, sub_buckets))
    hashes = [narrowed_hashes(other, selection) for other in others]
    left = selection.unexplained(narrowed_hashes(newest, selection), hashes)
    selection = selection.with_kind(ALL_KEYS, left)
    rest = Counter(newest) - compared(newest, selection)
    assert all(Counter(other) - compared(other, selection) == rest for other in others)


def test_rows_compared_follow_the_difference_where_all_buckets_differ() -> None:
    """Half a percent of the keys differ, several in each bucket."""
    old = list(range(20_000))
    whole = select_differing_keys(fingerprints(old[100:]), [fingerprints(old)], has_base=True)
    selection = narrowed(old, old[100:])
    rows = np.full(1 << BITS, len(old) / (1 << BITS), dtype=np.float32)
    found = compared(old, selection)
    assert compared(old, whole).total() > len(old) * 0.9
    assert found.keys() >= set(range(100))
    assert found.total() < len(old) / 4
    assert abs(selection.expected_rows(rows).sum() - found.total()) < len(old) / 50


def test_sub_bucket_whose_short_sums_agree_by_chance_is_found_by_the_fingerprints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = list(range(400)), list(range(60, 460))
    selection = narrowed(old, new)
    assert selection.differing is not None
    monkeypatch.setattr(selection.differing, "_is_selected", np.zeros(1 << sub_bucket_bits(BITS), dtype=bool))
    left = selection.unexplained(narrowed_hashes(new, selection), [narrowed_hashes(old, selection)])
    assert set(left) >= set(np.flatnonzero(selection.kinds == SUB_BUCKETS))
    assert SUB_BUCKETS in selection.kinds


@settings(max_examples=times(50, 1000), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    common=st.integers(0, 3000),
    wanted=st.integers(0, 40),
    present=st.integers(0, 40),
    same_bits=st.booleans(),
)
def test_hashes_that_the_other_list_lacks_are_counted(
    seed: int, common: int, wanted: int, present: int, same_bits: bool
) -> None:
    """With `same_bits` all hashes begin with the same bits, so that the bitmap cannot tell them apart."""
    random = np.random.default_rng(seed)
    hashes = np.unique(random.integers(0, 2**63, common + wanted + present).astype(np.uint64) << np.uint64(1))
    if same_bits:
        hashes = np.unique(hashes >> np.uint64(24) << np.uint64(1))
    random.shuffle(hashes)
    one, other = hashes[: common + wanted], np.concatenate([hashes[:common], hashes[common + wanted :]])
    random.shuffle(other)
    assert count_missing(one, other) == len(set(one.tolist()) - set(other.tolist()))


RANDOM = np.random.default_rng(20261122)
FIRSTS, VALUE_HASHES = (RANDOM.integers(0, 2**64, 5000, dtype=np.uint64) for _ in range(2))


def spilled(value_hashes: np.ndarray, at_a_time: int) -> list[SpillableHashes]:
    """As two threads would collect them."""
    both = [SpillableHashes(), SpillableHashes()]
    for start in range(0, len(value_hashes), at_a_time):
        rows = slice(start, start + at_a_time)
        both[start % 2].add(FIRSTS[rows], value_hashes[rows])
    return both


@pytest.mark.parametrize(("in_memory", "on_disk"), [(1 << 20, False), (700, True), (2000, True), (0, True)])
def test_changed_rows_are_counted_in_memory_and_on_disk(
    monkeypatch: pytest.MonkeyPatch, in_memory: int, on_disk: bool
) -> None:
    monkeypatch.setattr(spilled_hashes, "_ROWS_IN_MEMORY", in_memory)
    now = VALUE_HASHES.copy()
    now[100:160] *= np.uint64(3)
    parent, newest = spilled(VALUE_HASHES, 333), spilled(now[::-1], 501)
    assert any(part.is_on_disk for part in (*parent, *newest)) is on_disk
    assert ChangedRowsCounter(parent, newest, None).total() == 60
