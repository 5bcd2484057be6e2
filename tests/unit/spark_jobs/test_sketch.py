"""The difference of two sketches is the difference of the two sets of rows, by Python's own counting, or is not told.

Packed rows come back bit by bit. A stored sketch comes back as it was, or counts as absent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrays import U64Array
from dedup_spark.column_types import arrow_type
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import OutOfSpan, RowEncoder
from dedup_spark.sketch.sketch import Difference, Remainder, Sketch, bits_for
from dedup_spark.sketch.stored import StoredSketch
from testkit.table_contracts import NESTED, PRODUCTS
from tests.thoroughness import NIGHT

SEED = Seed(b"5" * 32)
PRODUCT_COLUMNS = key_columns(PRODUCTS)
# Rows of two, three and five words.
ENCODERS = [
    RowEncoder((Column("key", "INT64"),), (Column("value", "DATE", ColumnMode.REQUIRED),), SEED),
    RowEncoder((Column("key", "INT64"),), (Column("value", "INT64"),), SEED),
    RowEncoder(PRODUCT_COLUMNS, PRODUCTS.value_columns, SEED),
]


def random_rows(random: np.random.Generator, word_count: int, rows: int) -> U64Array:
    words = random.integers(0, 1 << 40, (word_count, rows)).astype(np.uint64)
    words[-1] &= np.uint64(0xFFFFFFFF)
    return words


def counted(words: U64Array) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, words.T.tolist()))


def sketch_of(encoder: RowEncoder, bits: int, *parts: U64Array) -> Sketch:
    sketch = Sketch.empty(encoder, bits)
    for words in parts:
        sketch.add(words)
    return sketch


def told(new: Sketch, old: Sketch) -> dict[tuple[int, ...], int] | None:
    found = new.minus(old).peel()
    if isinstance(found, Remainder):
        return None
    return dict(zip(map(tuple, found.words.T.tolist()), found.counts.tolist(), strict=True))


def expected(new: U64Array, old: U64Array) -> dict[tuple[int, ...], int]:
    difference = counted(new)
    difference.subtract(counted(old))
    return {row: count for row, count in difference.items() if count}


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda encoder: f"{encoder.word_count}_words")
@pytest.mark.parametrize(("rows", "least_told"), [(12, 45), (76, 25), (256, 0)])
def test_a_difference_is_that_of_the_sets_or_is_not_told(encoder: RowEncoder, rows: int, least_told: int) -> None:
    random, told_count = np.random.default_rng(encoder.word_count), 0
    for _ in range(50):
        new, old, common = (random_rows(random, encoder.word_count, n) for n in (rows, rows, 400))
        found = told(sketch_of(encoder, 8, new, common), sketch_of(encoder, 8, common[:, ::-1], old))
        if found is not None:
            told_count += 1
            assert found == expected(new, old)
    assert told_count >= least_told


@pytest.mark.parametrize("rows", [150, 300, 1_200])
def test_what_is_not_told_is_in_the_cells_that_are_left(rows: int) -> None:
    """With a row too few, or one that is in both sets, the sums show it."""
    random, encoder, tried = np.random.default_rng(rows), ENCODERS[1], 0
    for _ in range(20):
        new, old, common = (random_rows(random, encoder.word_count, n) for n in (rows, rows, 3_000))
        sets = np.concatenate([new, common], axis=1), np.concatenate([common, old], axis=1)

        def left(lost: int = 0, sets: Sequence[U64Array] = sets) -> tuple[Remainder, list[U64Array]] | None:
            found = sketch_of(encoder, 8, sets[0]).minus(sketch_of(encoder, 8, sets[1])).peel()
            if not isinstance(found, Remainder):
                return None
            rows_left = [words[:, found.rows_in(words)] for words in sets]
            return found, [rows_left[0][:, lost:], rows_left[1]]

        if (found := left()) is None:
            continue
        tried += 1
        remainder, (later, earlier) = found
        difference = counted(later)
        difference.subtract(counted(earlier))
        told = dict(zip(map(tuple, remainder.told.words.T.tolist()), remainder.told.counts.tolist(), strict=True))
        all_found = {row: count for row, count in difference.items() if count} | told
        assert all_found == expected(new, old)
        assert remainder.is_difference_of(later, earlier)
        wrong = left(lost=1)
        assert wrong
        assert not wrong[0].is_difference_of(*wrong[1])
    assert tried > 3


def test_no_sketch_tells_a_row_that_is_in_neither_set() -> None:
    """Small tables with many rows, in which most cells are sums of several rows."""
    random, told_count = np.random.default_rng(8), 0
    encoder = ENCODERS[0]
    for number in range(100_000 if NIGHT else 3_000):
        new, old = (random_rows(random, 2, int(n)) for n in random.integers(0, 16, 2))
        found = told(sketch_of(encoder, 4 + number % 3, new), sketch_of(encoder, 4 + number % 3, old))
        if found is not None:
            told_count += 1
            assert found == expected(new, old)
    assert told_count > 1_000


def test_rows_may_be_added_in_any_order_and_number_of_parts() -> None:
    random, encoder = np.random.default_rng(3), ENCODERS[2]
    words = random_rows(random, 5, 20_000)
    whole = sketch_of(encoder, 6, words)
    for _ in range(5):
        shuffled = words[:, random.permutation(20_000)]
        total = Sketch.empty(encoder, 6)
        for part in np.array_split(shuffled, 7, axis=1):
            total.add_all(sketch_of(encoder, 6, part))
        assert (total.rows, total.digest()) == (20_000, whole.digest())
        assert (total.cells == whole.cells).all()
    total.remove(words[:, 5:])
    assert (total.cells == sketch_of(encoder, 6, words[:, :5]).cells).all()


def test_sketches_with_other_numbers_of_cells_are_compared_in_the_fewer_ones() -> None:
    random, encoder = np.random.default_rng(4), ENCODERS[1]
    words = random_rows(random, 3, 500)
    fine, coarse = sketch_of(encoder, 12, words[:, :490]), sketch_of(encoder, 9, words[:, 5:])
    assert fine.digest() != coarse.digest()
    assert sketch_of(encoder, 12, words).digest() == sketch_of(encoder, 9, words).digest()
    assert told(fine, coarse) == expected(words[:, :5], words[:, 490:])


def test_a_row_of_zero_words_is_a_row() -> None:
    for encoder in ENCODERS:
        zero = np.zeros((encoder.word_count, 1), np.uint64)
        assert told(sketch_of(encoder, 4, zero), sketch_of(encoder, 4)) == {(0,) * encoder.word_count: 1}
        assert told(sketch_of(encoder, 4, zero), sketch_of(encoder, 4, zero)) == {}


def test_rows_that_share_both_cells_are_not_told_and_neither_are_copies() -> None:
    random, encoder = np.random.default_rng(5), ENCODERS[0]
    words = random_rows(random, 2, 2_000)
    by_cells: dict[bytes, list[int]] = {}
    for number in range(2_000):
        used = sketch_of(encoder, 4, words[:, [number]]).cells.any(axis=1)
        by_cells.setdefault(used.tobytes(), []).append(number)
    one, other = next(numbers for numbers in by_cells.values() if len(numbers) > 1)[:2]
    empty = sketch_of(encoder, 4)
    assert told(sketch_of(encoder, 4, words[:, [one, other]]), empty) is None
    assert told(sketch_of(encoder, 4, words[:, [one]]), sketch_of(encoder, 4, words[:, [other]])) is None
    assert told(sketch_of(encoder, 4, words[:, [one, one]]), empty) is None


@pytest.mark.parametrize(
    ("rows", "differing_rows", "bits"),
    [
        (0, 0, 7),
        (10, 3, 7),
        (2_000, 9, 11),
        (100_000, 10, 11),
        (100_000, 5_000, 16),
        (2_000_000, 0, 15),
        (10**9, 0, 20),
    ],
)
def test_cells_follow_the_differing_rows(rows: int, differing_rows: int, bits: int) -> None:
    assert bits_for(rows, differing_rows, word_count=5) == bits


def test_the_sketches_of_a_backlog_take_little_more_memory_than_those_of_one_delivery() -> None:
    for older in range(40):
        assert (3 + older) << bits_for(10**12, 0, 3, older) <= 3 << 21


NANS = [struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 + payload))[0] for payload in (0, 7)]
VALUES: dict[str, Sequence[Any]] = {
    "BOOL": [True, False],
    "DATE": [date.min, date.max, date(1970, 1, 1), date(1969, 12, 31)],
    "DATETIME": [-62_135_596_800_000_000, 253_402_300_799_999_999, 0],  # the first and the last of BigQuery
    "FLOAT64": [0.0, -0.0, 1.5, float("inf"), *NANS],
    "INT64": [0, -1, 7, 2**63 - 1, -(2**63)],
    "NUMERIC": [Decimal(0), Decimal("-0.000000001"), Decimal("9" * 29 + "." + "9" * 9), Decimal("-" + "9" * 29)],
}


def bytes_of(array: pa.Array) -> list[bytes | None]:
    """Each value's own bytes: NaN and -0.0 are not what they equal."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width, data = array.type.bit_width // 8, array.buffers()[1].to_pybytes()
    valid = array.is_valid().to_pylist()
    return [data[n * width : (n + 1) * width] if valid[n] else None for n in range(len(array))]


@pytest.mark.parametrize("value_type", VALUES)
@pytest.mark.parametrize("is_narrow", [False, True])
def test_packed_rows_come_back_bit_by_bit(value_type: str, is_narrow: bool) -> None:
    columns = tuple(Column(name, kind) for name, kind in (("value", value_type), ("other", "BOOL"), ("last", "INT64")))
    encoder = RowEncoder((Column("key", "INT64"),), columns, SEED)
    values = [*VALUES[value_type], None, *VALUES[value_type]]
    keys = pa.array(range(100, 100 + len(values)), pa.int64())
    last = pa.array([None if n % 3 else n for n in range(len(values))], pa.int64())
    if is_narrow:
        encoder = encoder.narrowed({"key": (100, 100 + len(values)), "last": (0, len(values))})
    arrays = [pa.array(values, arrow_type(columns[0])), pa.nulls(len(values), pa.bool_()), last]
    words = encoder.words([keys], arrays)
    assert encoder.is_packed
    assert not (words[-1] >> np.uint64(32)).any()
    found = encoder.columns(words)
    assert [array.type for array in found] == [arrow_type(column) for column in (encoder.keys + encoder.values)]
    assert [bytes_of(array) for array in found] == [bytes_of(array) for array in (keys, *arrays)]
    sketch = sketch_of(encoder, 7, words)
    difference = sketch.minus(sketch_of(encoder, 7)).peel()
    assert isinstance(difference, Difference)
    assert sorted(zip(*map(bytes_of, encoder.columns(difference.words)), strict=True), key=str) == sorted(
        zip(*map(bytes_of, found), strict=True), key=str
    )


def product_words(encoder: RowEncoder, *rows: Sequence[int | None]) -> U64Array:
    *keys, value = (pa.array(column, pa.int64()) for column in zip(*rows, strict=True))
    return encoder.words(keys, [value])


def test_rows_with_narrow_ranges_take_two_words_and_others_are_refused() -> None:
    wide = ENCODERS[2]
    bounds = {"product_id": (5_000, 900_000), "store_id": (0, 3_000), "attribute_id": (1, 12), "attr_value": (0, 9_999)}
    narrow = wide.narrowed(bounds)
    assert (wide.word_count, narrow.word_count) == (5, 2)
    rows = [(5_000, 0, 1, None), (900_000, 3_000, 12, 9_999), (4_000, 3_500, 13, -10)]
    found = narrow.columns(product_words(narrow, *rows))
    assert list(zip(*(array.to_pylist() for array in found), strict=True)) == rows
    for row in ((2_000_000, 0, 1, 0), (5_000, 0, 1, -(2**40)), (-(2**50), 0, 1, None)):
        with pytest.raises(OutOfSpan):
            product_words(narrow, row)


def test_keys_of_words_are_equal_if_the_keys_are() -> None:
    codes = []
    for encoder in (ENCODERS[2], ENCODERS[2].narrowed({"product_id": (0, 900), "store_id": (0, 9)})):
        words = product_words(encoder, (1, 2, 3, 4), (1, 2, 3, None), (1, 2, 4, 4), (1, 3, 2, 4))
        keys = encoder.key_words(words)
        assert (keys[:, 0] == keys[:, 1]).all()
        assert len(counted(keys)) == 3
        codes.append(encoder.codes_of(words).tolist())
        assert codes[-1] == encoder.key_codes(encoder.columns(words)[:3]).tolist()
    assert codes[0] == codes[1]
    assert (codes[0][0] == codes[0][1], len(set(codes[0]))) == (True, 3)


def test_rows_with_text_or_of_many_columns_are_hashes() -> None:
    encoder = RowEncoder(key_columns(NESTED), NESTED.value_columns, SEED)
    assert not encoder.is_packed
    many = RowEncoder(PRODUCT_COLUMNS, tuple(Column(f"value_{n}", "INT64") for n in range(9)), SEED)
    assert (many.is_packed, many.word_count) == (False, 3)
    keys = [pa.array([1, 1, 2], pa.int64()) for _ in range(3)]
    words = many.words(keys, [pa.array([None, 5, 5], pa.int64())] * 9)
    assert not (words[-1] >> np.uint64(32)).any()
    hashes = KeyHasher(PRODUCT_COLUMNS, SEED).first(keys)
    assert (many.codes_of(words) == hashes).all()
    assert (many.key_codes(keys) == hashes).all()
    assert (len(counted(many.key_words(words))), len(counted(words))) == (2, 3)


def written(folder: Path, encoder: RowEncoder = ENCODERS[2]) -> tuple[str, Sketch]:
    uri, sketch = str(folder / "sketch.bin"), sketch_of(encoder, 8, random_rows(np.random.default_rng(7), 2, 90))
    stored.write(uri, StoredSketch(5, sketch))
    return uri, sketch


NARROW = ENCODERS[2].narrowed({name: (0, 1_000) for name in ("product_id", "store_id", "attribute_id", "attr_value")})


def test_a_stored_sketch_comes_back_with_its_spans(tmp_path: Path) -> None:
    uri, sketch = written(tmp_path, NARROW)
    found = stored.read(uri, ENCODERS[2], sketch.digest())
    assert found
    assert (found.update_id, found.sketch.rows, found.sketch.encoder) == (5, 90, NARROW)
    assert (found.sketch.cells == sketch.cells).all()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut_checksum": lambda content: content[:5],
    "cut_header": lambda content: content[:20],
    "cut_cells": lambda content: content[:-8],
    "longer": lambda content: content + b"\0",
    "changed_cell": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "other_rows": lambda content: content.replace(b'"rows": 90', b'"rows": 91', 1),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_sketch_counts_as_absent(tmp_path: Path, how: str) -> None:
    uri, sketch = written(tmp_path, NARROW)
    path = Path(uri)
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    assert stored.read(uri, ENCODERS[2], sketch.digest()) is None


def test_a_sketch_of_another_version_seed_date_or_table_counts_as_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, sketch = written(tmp_path, NARROW)
    other_columns = RowEncoder(PRODUCT_COLUMNS, (Column("attr_value", "INT64", ColumnMode.REQUIRED),), SEED)
    other_seed = RowEncoder(PRODUCT_COLUMNS, PRODUCTS.value_columns, Seed(b"6" * 32))
    for encoder in (other_columns, other_seed, ENCODERS[1]):
        assert stored.read(uri, encoder, sketch.digest()) is None
    assert stored.read(uri, ENCODERS[2], sketch_of(NARROW, 8).digest()) is None
    assert stored.read(f"{uri}.absent", ENCODERS[2], sketch.digest()) is None
    monkeypatch.setattr(stored, "VERSION", 0)
    assert stored.read(uri, ENCODERS[2], sketch.digest()) is None
