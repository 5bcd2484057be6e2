"""Turns rows into a few 64-bit words each, which a sketch sums up, and words back into rows.

If all columns of a row fit, its words are the values themselves (packed rows), and give the row back bit by bit. If the
row has text, arrays or STRUCTs, or too many columns, its words are hashes of its key and of the whole row (hashed
rows): these tell which keys differ, and the rows are read from the files. In both forms the highest 32 bits of the last
word are zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrays import BoolArray, U64Array
from dedup_spark.column_types import arrow_type
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import fixed_words
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.value_hashing import ValueHasher, without_nulls

# By these bits, which are zero in every row, a sum of several rows is told from a row.
SPARE_BITS = 32
MAX_WORDS = 6
_WORD_BITS = 64
_HASHED_WORDS = 3
# Factors by which `key_codes` tells key columns apart, and mixes: any odd numbers without a pattern.
_FACTORS = np.random.default_rng(1).integers(1 << 62, 1 << 63, 64, dtype=np.uint64) | np.uint64(1)
_HALF_WORD_BITS = np.uint64(32)


class Span(NamedTuple):
    """The numbers that a packed column may have: from `least` up, as many as `bits` bits count (modulo 2^64)."""

    least: int
    bits: int


# The spans of columns for which no narrower one is known.
_WHOLE_SPANS = {
    "BOOL": Span(0, 1),
    "DATE": Span(-(1 << 31), 32),
    "DATETIME": Span(0, 64),
    "FLOAT64": Span(0, 64),
    "INT64": Span(0, 64),
    "NUMERIC": Span(0, 64),  # of each of its two words
    "TIMESTAMP": Span(0, 64),
}
# Small ranges get this much room at least, because later values are seldom as near to each other.
_LEAST_SIZE = (1 << 16) - 1


def span_of(least: int, greatest: int) -> Span:
    """Return a span around these bounds, with room for later values: at least half as many below, and above."""
    size = max(greatest - least, _LEAST_SIZE)
    return Span(max(least - size // 2, -(1 << 63)), min(size.bit_length() + 1, _WORD_BITS))


class OutOfSpan(Exception):
    """A row has a number outside the span that the encoder was given for its column."""


class _Field(NamedTuple):
    """Where packed rows have a number of a column (`part`, from 0), or the bit that marks NULL (`part` is None).

    The field has the `bits` of the number from its bit `start` on. A number that crosses the end of a word has two
    fields.
    """

    column: int
    part: int | None
    word: int
    shift: int
    bits: int
    start: int


@dataclass(frozen=True)
class RowEncoder:
    """Encodes rows. `keys`, `values`: the key columns and the value columns.

    `spans`: the spans of some columns, by name, in any order. Encoders that are equal give equal words for equal rows.
    """

    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    seed: Seed
    spans: tuple[tuple[str, Span], ...] = ()

    @cached_property
    def _packing(self) -> tuple[int, tuple[_Field, ...]] | None:
        """The number of words of a packed row, and its fields; None if rows are hashed."""
        if not self.has_packable_types:
            return None
        parts: list[tuple[int, int, int | None]] = []
        for number, column in enumerate(self._columns):
            bits = self._span(column).bits
            parts += [(bits, number, part) for part in range(2 if column.type == "NUMERIC" else 1)]
            if number >= len(self.keys) and column.mode is not ColumnMode.REQUIRED:
                parts.append((1, number, None))
        size = sum(bits for bits, _, _ in parts) + SPARE_BITS
        word_count = max(-(-size // _WORD_BITS), 2)
        return (word_count, tuple(_layout(parts))) if word_count <= MAX_WORDS else None

    @property
    def has_packable_types(self) -> bool:
        """Whether rows can be packed if their numbers are within narrow enough spans."""
        return all(column.mode is not ColumnMode.REPEATED and column.type in _WHOLE_SPANS for column in self._columns)

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return (*self.keys, *self.values)

    def _span(self, column: Column) -> Span:
        return dict(self.spans).get(column.name, _WHOLE_SPANS[column.type])

    @property
    def narrowable(self) -> list[str]:
        """The names of the columns that may have narrow spans."""
        return [column.name for column in self._columns if column.type == "INT64"]

    def narrowed(self, bounds: dict[str, tuple[int, int]]) -> RowEncoder:
        """An encoder with spans for rows whose numbers are about within these bounds, by the name of the column."""
        spans = sorted((name, span_of(*found)) for name, found in bounds.items())
        narrowed = RowEncoder(self.keys, self.values, self.seed, tuple(spans))
        return narrowed if narrowed.is_packed else RowEncoder(self.keys, self.values, self.seed)

    @property
    def is_packed(self) -> bool:
        return self._packing is not None

    @cached_property
    def word_count(self) -> int:
        return _HASHED_WORDS if self._packing is None else self._packing[0]

    @property
    def _fields(self) -> tuple[_Field, ...]:
        """The fields of a packed row."""
        return self._packing[1] if self._packing else ()

    @cached_property
    def key_hasher(self) -> KeyHasher:
        return KeyHasher(self.keys, self.seed)

    def value_hashes(self, keys: Sequence[pa.Array], values: Sequence[pa.Array]) -> U64Array:
        """One hash for each row: rows of one key have equal hashes if their values are equal by the data contract."""
        return ValueHasher(self.values, self.seed).hash(self.key_hasher.first(keys), values)

    def words(self, keys: Sequence[pa.Array], values: Sequence[pa.Array]) -> U64Array:
        """Return the words: one line for each word, with a number for each row.

        `keys`, `values`: the arrays of the columns, with the declared types. A key has no NULL. Raises OutOfSpan.
        """
        if not self.is_packed:
            first, second = self.key_hasher.both(keys)
            hashes = ValueHasher(self.values, self.seed).hash(first, values)
            return self.hashed_words(first, second, hashes)
        arrays, words = (*keys, *values), np.zeros((self.word_count, len(keys[0])), np.uint64)
        parts = [list(self._parts(column, array)) for column, array in zip(self._columns, arrays, strict=True)]
        for field in self._fields:
            if field.part is None:
                if not arrays[field.column].null_count:
                    continue
                numbers = _is_null(arrays[field.column]).astype(np.uint64)
            else:
                numbers = parts[field.column][field.part]
            numbers = numbers >> np.uint64(field.start) if field.start else numbers
            word = words[field.word]
            np.bitwise_or(word, numbers << np.uint64(field.shift) if field.shift else numbers, out=word)
        return words

    @staticmethod
    def hashed_words(first: U64Array, second: U64Array, value_hashes: U64Array) -> U64Array:
        """The words of hashed rows. `first`, `second`: the hashes of their keys."""
        return np.stack([first, value_hashes, second >> np.uint64(SPARE_BITS)])

    def _parts(self, column: Column, array: pa.Array) -> Iterator[U64Array]:
        """The words of a column, from the least of its span on; zero for NULL. Raises OutOfSpan."""
        if column.type == "FLOAT64":
            yield pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).view(np.uint64)
            return
        span = self._span(column)
        for words in fixed_words(column, without_nulls(array)):
            numbers = words - self._least(column) if span.least else words
            if array.null_count:
                numbers = np.where(_is_null(array), np.uint64(0), numbers)
            if span.bits < _WORD_BITS and len(numbers) and int(numbers.max()) >> span.bits:
                raise OutOfSpan(column.name)
            yield numbers

    def columns(self, words: U64Array) -> tuple[pa.Array, ...]:
        """Return the key columns and the value columns of packed rows, with every bit as it was."""
        assert self.is_packed
        nulls = {field.column: _bits(words, field).astype(bool) for field in self._fields if field.part is None}
        numbers: dict[tuple[int, int], U64Array] = {}
        for field in self._fields:
            if field.part is not None:
                bits, place = _bits(words, field) << np.uint64(field.start), (field.column, field.part)
                numbers[place] = numbers[place] | bits if place in numbers else bits
        return tuple(
            _array(
                column,
                [numbers[number, part] + self._least(column) for part in range(2) if (number, part) in numbers],
                nulls.get(number),
            )
            for number, column in enumerate(self._columns)
        )

    def _least(self, column: Column) -> np.uint64:
        """The least number of the column's span, modulo 2^64."""
        return np.uint64(self._span(column).least % (1 << _WORD_BITS))

    @cached_property
    def _key_masks(self) -> U64Array:
        """For each word the bits that belong to the key."""
        masks = [0] * self.word_count
        if not self.is_packed:
            masks[0] = masks[2] = (1 << _WORD_BITS) - 1
        for field in self._fields:
            if field.column < len(self.keys):
                masks[field.word] |= ((1 << field.bits) - 1) << field.shift
        return np.array(masks, np.uint64)

    def key_words(self, words: U64Array) -> U64Array:
        """The words with only the bits of the key: equal if and only if the keys (of hashed rows, their hashes) are."""
        return words & self._key_masks[:, np.newaxis]

    def key_codes(self, keys: Sequence[pa.Array]) -> U64Array:
        """One number for each row, by its key columns: the same for equal keys, and rarely the same for others.

        The first hash of the key if rows are hashed; otherwise a quicker mix, which is no secret. So keys with equal
        codes are never taken to be equal.
        """
        if not self.is_packed:
            return self.key_hasher.first(keys)
        codes, factors = np.zeros(len(keys[0]), np.uint64), iter(_FACTORS)
        for column, array in zip(self.keys, keys, strict=True):
            for words in fixed_words(column, array):
                codes += words * next(factors)
        codes ^= codes >> _HALF_WORD_BITS
        codes *= next(factors)
        return np.asarray(codes ^ (codes >> _HALF_WORD_BITS))

    def codes_of(self, words: U64Array) -> U64Array:
        """The key codes of rows that are given by their words."""
        return self.key_codes(self.columns(words)[: len(self.keys)]) if self.is_packed else words[0]


def _layout(parts: Sequence[tuple[int, int, int | None]]) -> Iterator[_Field]:
    """Place the parts (bits, column, part) one after the other. The largest come first, so that few cross a word."""
    position = 0
    for bits, column, part in sorted(parts, key=lambda part: -part[0]):
        start = 0
        while start < bits:
            word, shift = divmod(position, _WORD_BITS)
            placed = min(bits - start, _WORD_BITS - shift)
            yield _Field(column, part, word, shift, placed, start)
            position, start = position + placed, start + placed


def _bits(words: U64Array, field: _Field) -> U64Array:
    return np.asarray((words[field.word] >> np.uint64(field.shift)) & np.uint64((1 << field.bits) - 1))


def _is_null(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _array(column: Column, parts: Sequence[U64Array], is_null: BoolArray | None) -> pa.Array:
    """The column with these words. `is_null`: for each row whether it is NULL; None if no row is."""
    if column.type == "BOOL":
        return pa.array(parts[0].astype(bool), pa.bool_(), mask=is_null)
    mask = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little").tobytes())
    numbers = parts[0].astype(np.uint32) if column.type == "DATE" else np.stack(parts, axis=1)
    return pa.Array.from_buffers(arrow_type(column), len(numbers), [mask, pa.py_buffer(numbers.tobytes())])
