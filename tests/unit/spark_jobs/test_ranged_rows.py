"""Rows sorted into ranges of buckets: each range has all of its rows, in memory or from the file."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from dedup_spark.comparison import ranged_rows
from dedup_spark.comparison.bucket_ranges import BucketRange
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.fingerprints.buckets import bucket_of

BITS = 4
HASHES = np.random.default_rng(4).integers(0, 2**63, 1000).astype(np.uint64)


def rows(start: int, stop: int, *, with_values: bool) -> SelectedRows:
    numbers = np.arange(start, stop)
    texts = pa.chunked_array([pa.array([f"key {number}" for number in numbers], pa.string())])
    return SelectedRows(
        key_columns=(texts,),
        file_numbers=numbers.astype(np.int32) % 3,
        row_numbers=numbers,
        update_ids=numbers + 7,
        value_hashes=HASHES[start:stop],
        value_columns=(pa.chunked_array([pa.array(numbers)]),) if with_values else None,
        first_hashes=HASHES[start:stop],
    )


@pytest.mark.parametrize("in_memory", [10_000, 150, 1])
@pytest.mark.parametrize("all_have_values", [True, False])
@pytest.mark.parametrize("stops", [[16], [1, 9, 16], [4, 5, 6, 16]])
def test_each_range_has_its_rows(
    monkeypatch: pytest.MonkeyPatch, in_memory: int, stops: list[int], *, all_have_values: bool
) -> None:
    monkeypatch.setattr(ranged_rows, "_ROWS_IN_MEMORY", in_memory)
    ranges = [BucketRange(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
    selected = RangedRows(ranges, BITS)
    edges = [0, 0, 100, 300, 301, 1000]
    for start, stop in itertools.pairwise(edges):
        selected.add(rows(start, stop, with_values=all_have_values or start > 0))
    found = []
    for number, part in enumerate(ranges):
        of_range = selected.of_range(number)
        buckets = bucket_of(of_range.first_hashes, BITS)
        assert ((part.start <= buckets) & (buckets < part.stop)).all()
        assert of_range.key_columns[0].to_pylist() == [f"key {row}" for row in of_range.row_numbers]
        assert np.array_equal(of_range.first_hashes, HASHES[of_range.row_numbers])
        assert np.array_equal(of_range.value_hashes, of_range.first_hashes)
        assert np.array_equal(of_range.update_ids, of_range.row_numbers + 7)
        if of_range.value_columns:
            assert of_range.value_columns[0].to_pylist() == of_range.row_numbers.tolist()
        else:
            assert not all_have_values
        found += of_range.row_numbers.tolist()
    assert sorted(found) == list(range(1000))
