"""Computes BigQuery's FARM_FINGERPRINT for all texts of an Arrow array at once, with NumPy.

FARM_FINGERPRINT is the function Fingerprint64 of the FarmHash library, from which the constants and most names here are
taken. It has one formula for each range of lengths, which is applied here to all texts of the range at once.
In all functions `at` are the positions, in the bytes of all texts, at which the hashed texts or their blocks begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

U64Array: TypeAlias = npt.NDArray[np.uint64]
I64Array: TypeAlias = npt.NDArray[np.int64]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_WORD_BYTES = 8
_BLOCK_BYTES = 64
_SEED = 81


@dataclass(frozen=True)
class _Texts:
    """The bytes of all texts, and views of them as the 8-byte and 4-byte integers that begin at each byte."""

    content: npt.NDArray[np.uint8]
    words: U64Array
    half_words: npt.NDArray[np.uint32]

    @classmethod
    def over(cls, content: npt.NDArray[np.uint8]) -> _Texts:
        def view(kind: str, size: int) -> npt.NDArray[np.generic]:
            count = max(0, len(content) - size + 1)
            return np.ndarray(shape=(count,), dtype=kind, buffer=content if count else b"", strides=(1,))

        return cls(content, view("<u8", 8), view("<u4", 4))  # type: ignore[arg-type]

    def word(self, at: I64Array) -> U64Array:
        """The 8-byte integers that begin at the positions `at`."""
        return self.words[at]


def farm_fingerprints(texts: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """The fingerprint of each text. The array must not contain NULL."""
    if len(texts) == 0:
        return np.empty(0, np.int64)
    _, offsets_buffer, content_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(content_buffer, np.uint8) if content_buffer is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    source, result = _Texts.over(content), np.empty(len(texts), np.uint64)
    with np.errstate(over="ignore"):
        for shortest, longest, compute in _FORMULAS:
            selected = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
            if len(selected):
                result[selected] = compute(source, starts[selected], lengths[selected])
    return result.view(np.int64)


def _rotate(words: U64Array, bits: int) -> U64Array:
    return (words >> np.uint64(bits)) | (words << np.uint64(64 - bits))


def _shift_mix(words: U64Array) -> U64Array:
    return words ^ (words >> np.uint64(47))


def _hash_len_16(low: U64Array, high: U64Array, mul: U64Array) -> U64Array:
    first = _shift_mix((low ^ high) * mul)
    return _shift_mix((high ^ first) * mul) * mul


def _mul(lengths: I64Array) -> U64Array:
    return _K2 + lengths.astype(np.uint64) * np.uint64(2)


def _hash_len_0(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    return np.full(len(at), _K2)


def _hash_len_1_to_3(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    first, middle, last = (source.content[p].astype(np.uint64) for p in (at, at + (lengths >> 1), at + lengths - 1))
    low = first + (middle << np.uint64(8))
    high = lengths.astype(np.uint64) + (last << np.uint64(2))
    return _shift_mix(low * _K2 ^ high * _K0) * _K2


def _hash_len_4_to_7(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    first = source.half_words[at].astype(np.uint64)
    last = source.half_words[at + lengths - 4].astype(np.uint64)
    return _hash_len_16(lengths.astype(np.uint64) + (first << np.uint64(3)), last, _mul(lengths))


def _hash_len_8_to_16(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    mul = _mul(lengths)
    first = source.word(at) + _K2
    last = source.word(at + lengths - 8)
    return _hash_len_16(_rotate(last, 37) * mul + first, (_rotate(first, 25) + last) * mul, mul)


def _ends(source: _Texts, at: I64Array, lengths: I64Array, scale: np.uint64) -> tuple[U64Array, U64Array, U64Array]:
    """Two hashes (low and high) of the first and the last sixteen bytes together, and the first word times `scale`."""
    mul = _mul(lengths)
    first = source.word(at) * scale
    second = source.word(at + 8)
    last = source.word(at + lengths - 8) * mul
    before = source.word(at + lengths - 16) * _K2
    low = _rotate(first + second, 43) + _rotate(last, 30) + before
    return low, first + _rotate(second + _K2, 18) + last, first


def _hash_len_17_to_32(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    low, high, _ = _ends(source, at, lengths, _K1)
    return _hash_len_16(low, high, _mul(lengths))


def _hash_len_33_to_64(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    mul = _mul(lengths)
    low, high, first = _ends(source, at, lengths, _K2)
    whole = _hash_len_16(low, high, mul)
    third, fourth = source.word(at + 16) * mul, source.word(at + 24)
    fifth = (low + source.word(at + lengths - 32)) * mul
    sixth = (whole + source.word(at + lengths - 24)) * mul
    return _hash_len_16(
        _rotate(third + fourth, 43) + _rotate(fifth, 30) + sixth,
        third + _rotate(fourth + first, 18) + fifth,
        mul,
    )


@dataclass
class _State:
    """The state of the hash between two blocks of long texts: for each text three integers and two integer pairs."""

    x: U64Array
    y: U64Array
    z: U64Array
    v: tuple[U64Array, U64Array]
    w: tuple[U64Array, U64Array]

    def block(self, source: _Texts, at: I64Array, mul: np.uint64 | U64Array, weight_of_state: int) -> _State:
        """The state after the 64-byte blocks at the positions `at`.

        `mul`, `weight_of_state`: multipliers; those of a text's last block differ from those of its other blocks.
        """
        weight = np.uint64(weight_of_state)
        x = _rotate(self.x + self.y + self.v[0] + source.word(at + 8), 37) * mul
        y = _rotate(self.y + self.v[1] + source.word(at + 48), 42) * mul
        x = x ^ (self.w[1] * weight)
        y = y + self.v[0] * weight + source.word(at + 40)
        z = _rotate(self.z + self.w[0], 33) * mul
        v = _weak_hash_len_32(source, at, self.v[1] * mul, x + self.w[0])
        w = _weak_hash_len_32(source, at + 32, z + self.w[1], y + source.word(at + 16))
        return _State(z, y, x, v, w)

    def select(self, selected: npt.NDArray[np.bool_]) -> _State:
        """The state of the selected texts."""
        v, w = (self.v[0][selected], self.v[1][selected]), (self.w[0][selected], self.w[1][selected])
        return _State(self.x[selected], self.y[selected], self.z[selected], v, w)

    def assign(self, selected: npt.NDArray[np.bool_], state: _State) -> None:
        """Replace the state of the selected texts by `state`, which has one value for each of them."""
        pairs = [(self.x, state.x), (self.y, state.y), (self.z, state.z)]
        pairs += [*zip(self.v, state.v, strict=True), *zip(self.w, state.w, strict=True)]
        for array, values in pairs:
            array[selected] = values


def _weak_hash_len_32(source: _Texts, at: I64Array, a: U64Array, b: U64Array) -> tuple[U64Array, U64Array]:
    first, second, third, fourth = (source.word(at + _WORD_BYTES * i) for i in range(4))
    a = a + first
    b = _rotate(b + a + fourth, 21)
    total = a + second + third
    return total + fourth, b + _rotate(total, 44) + a


def _hash_over_64(source: _Texts, at: I64Array, lengths: I64Array) -> U64Array:
    blocks, rest = (lengths - 1) // _BLOCK_BYTES, ((lengths - 1) % _BLOCK_BYTES).astype(np.uint64)
    state = _initial_state(source, at)
    for number in range(int(blocks.max())):
        unfinished = blocks > number
        positions = at[unfinished] + number * _BLOCK_BYTES
        state.assign(unfinished, state.select(unfinished).block(source, positions, _K1, 1))
    mul = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    w_first = state.w[0] + rest
    v_first = state.v[0] + w_first
    state.v, state.w = (v_first, state.v[1]), (w_first + v_first, state.w[1])
    state = state.block(source, at + lengths - _BLOCK_BYTES, mul, 9)
    low = _hash_len_16(state.v[0], state.w[0], mul) + _shift_mix(state.y) * _K0 + state.z
    return _hash_len_16(low, _hash_len_16(state.v[1], state.w[1], mul) + state.x, mul)


def _initial_state(source: _Texts, at: I64Array) -> _State:
    seed = np.full(len(at), _SEED, np.uint64)
    y = seed * _K1 + np.uint64(113)
    z = _shift_mix(y * _K2 + np.uint64(113)) * _K2

    def zeros() -> tuple[U64Array, U64Array]:
        return np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)

    return _State(seed * _K2 + source.word(at), y, z, zeros(), zeros())


# shortest and longest text in bytes, and the formula for such texts
_FORMULAS = (
    (0, 0, _hash_len_0),
    (1, 3, _hash_len_1_to_3),
    (4, 7, _hash_len_4_to_7),
    (8, 16, _hash_len_8_to_16),
    (17, 32, _hash_len_17_to_32),
    (33, _BLOCK_BYTES, _hash_len_33_to_64),
    (_BLOCK_BYTES + 1, np.iinfo(np.int64).max, _hash_over_64),
)
