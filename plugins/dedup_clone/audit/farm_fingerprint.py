"""FARM_FINGERPRINT for a whole Arrow array of texts at once, as BigQuery computes it for each.

The function is FarmHash's Fingerprint64, whose definition is fixed for ever. It has a form of its own for five classes
of length; each class is computed in one go, with 64-bit words picked out of the array's buffer at any byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words: TypeAlias = npt.NDArray[np.uint64]
Positions: TypeAlias = npt.NDArray[np.int64]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_WORD_BYTES = 8
_BLOCK_BYTES = 64
_SEED = 81


@dataclass(frozen=True)
class _Texts:
    """The bytes of all texts, seen as words that begin at each byte."""

    content: npt.NDArray[np.uint8]
    words: Words
    half_words: npt.NDArray[np.uint32]

    @classmethod
    def over(cls, content: npt.NDArray[np.uint8]) -> _Texts:
        def view(kind: str, size: int) -> npt.NDArray[np.generic]:
            count = max(0, len(content) - size + 1)
            return np.ndarray(shape=(count,), dtype=kind, buffer=content if count else b"", strides=(1,))

        return cls(content, view("<u8", 8), view("<u4", 4))  # type: ignore[arg-type]

    def word(self, at: Positions) -> Words:
        return self.words[at]


def farm_fingerprints(texts: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """The fingerprint of each text; the array has no NULL."""
    if len(texts) == 0:
        return np.empty(0, np.int64)
    _, offsets_buffer, content_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(content_buffer, np.uint8) if content_buffer is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    source, result = _Texts.over(content), np.empty(len(texts), np.uint64)
    with np.errstate(over="ignore"):
        for shortest, longest, compute in _CLASSES:
            chosen = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
            if len(chosen):
                result[chosen] = compute(source, starts[chosen], lengths[chosen])
    return result.view(np.int64)


def _rotated(words: Words, bits: int) -> Words:
    return (words >> np.uint64(bits)) | (words << np.uint64(64 - bits))


def _folded(words: Words) -> Words:
    return words ^ (words >> np.uint64(47))


def _mixed(low: Words, high: Words, factor: Words) -> Words:
    first = _folded((low ^ high) * factor)
    return _folded((high ^ first) * factor) * factor


def _factor(lengths: Positions) -> Words:
    return _K2 + lengths.astype(np.uint64) * np.uint64(2)


def _empty(source: _Texts, at: Positions, lengths: Positions) -> Words:
    return np.full(len(at), _K2)


def _up_to_3(source: _Texts, at: Positions, lengths: Positions) -> Words:
    first, middle, last = (source.content[p].astype(np.uint64) for p in (at, at + (lengths >> 1), at + lengths - 1))
    low = first + (middle << np.uint64(8))
    high = lengths.astype(np.uint64) + (last << np.uint64(2))
    return _folded(low * _K2 ^ high * _K0) * _K2


def _up_to_7(source: _Texts, at: Positions, lengths: Positions) -> Words:
    first = source.half_words[at].astype(np.uint64)
    last = source.half_words[at + lengths - 4].astype(np.uint64)
    return _mixed(lengths.astype(np.uint64) + (first << np.uint64(3)), last, _factor(lengths))


def _up_to_16(source: _Texts, at: Positions, lengths: Positions) -> Words:
    factor = _factor(lengths)
    first = source.word(at) + _K2
    last = source.word(at + lengths - 8)
    return _mixed(_rotated(last, 37) * factor + first, (_rotated(first, 25) + last) * factor, factor)


def _ends(source: _Texts, at: Positions, lengths: Positions, scale: np.uint64) -> tuple[Words, Words, Words]:
    """The mixture of the first and the last sixteen bytes: both halves, and the first word as scaled."""
    factor = _factor(lengths)
    first = source.word(at) * scale
    second = source.word(at + 8)
    last = source.word(at + lengths - 8) * factor
    before = source.word(at + lengths - 16) * _K2
    low = _rotated(first + second, 43) + _rotated(last, 30) + before
    return low, first + _rotated(second + _K2, 18) + last, first


def _up_to_32(source: _Texts, at: Positions, lengths: Positions) -> Words:
    low, high, _ = _ends(source, at, lengths, _K1)
    return _mixed(low, high, _factor(lengths))


def _up_to_64(source: _Texts, at: Positions, lengths: Positions) -> Words:
    factor = _factor(lengths)
    low, high, first = _ends(source, at, lengths, _K2)
    whole = _mixed(low, high, factor)
    third, fourth = source.word(at + 16) * factor, source.word(at + 24)
    fifth = (low + source.word(at + lengths - 32)) * factor
    sixth = (whole + source.word(at + lengths - 24)) * factor
    return _mixed(
        _rotated(third + fourth, 43) + _rotated(fifth, 30) + sixth,
        third + _rotated(fourth + first, 18) + fifth,
        factor,
    )


@dataclass
class _State:
    """What goes from block to block of long texts, for all of them: three words and two pairs."""

    x: Words
    y: Words
    z: Words
    v: tuple[Words, Words]
    w: tuple[Words, Words]

    def block(self, source: _Texts, at: Positions, factor: np.uint64 | Words, carry: int) -> _State:
        """After the 64 bytes that begin at each position. The last block weighs what it carries over nine times."""
        weight = np.uint64(carry)
        x = _rotated(self.x + self.y + self.v[0] + source.word(at + 8), 37) * factor
        y = _rotated(self.y + self.v[1] + source.word(at + 48), 42) * factor
        x = x ^ (self.w[1] * weight)
        y = y + self.v[0] * weight + source.word(at + 40)
        z = _rotated(self.z + self.w[0], 33) * factor
        v = _weak(source, at, self.v[1] * factor, x + self.w[0])
        w = _weak(source, at + 32, z + self.w[1], y + source.word(at + 16))
        return _State(z, y, x, v, w)

    def of(self, chosen: npt.NDArray[np.bool_]) -> _State:
        v, w = (self.v[0][chosen], self.v[1][chosen]), (self.w[0][chosen], self.w[1][chosen])
        return _State(self.x[chosen], self.y[chosen], self.z[chosen], v, w)

    def put(self, chosen: npt.NDArray[np.bool_], other: _State) -> None:
        pairs = [(self.x, other.x), (self.y, other.y), (self.z, other.z)]
        pairs += [*zip(self.v, other.v, strict=True), *zip(self.w, other.w, strict=True)]
        for mine, theirs in pairs:
            mine[chosen] = theirs


def _weak(source: _Texts, at: Positions, a: Words, b: Words) -> tuple[Words, Words]:
    first, second, third, fourth = (source.word(at + _WORD_BYTES * i) for i in range(4))
    a = a + first
    b = _rotated(b + a + fourth, 21)
    total = a + second + third
    return total + fourth, b + _rotated(total, 44) + a


def _longer(source: _Texts, at: Positions, lengths: Positions) -> Words:
    blocks, rest = (lengths - 1) // _BLOCK_BYTES, ((lengths - 1) % _BLOCK_BYTES).astype(np.uint64)
    state = _beginning(source, at)
    for number in range(int(blocks.max())):
        goes_on = blocks > number
        positions = at[goes_on] + number * _BLOCK_BYTES
        state.put(goes_on, state.of(goes_on).block(source, positions, _K1, 1))
    factor = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    w_first = state.w[0] + rest
    v_first = state.v[0] + w_first
    state.v, state.w = (v_first, state.v[1]), (w_first + v_first, state.w[1])
    state = state.block(source, at + lengths - _BLOCK_BYTES, factor, 9)
    low = _mixed(state.v[0], state.w[0], factor) + _folded(state.y) * _K0 + state.z
    return _mixed(low, _mixed(state.v[1], state.w[1], factor) + state.x, factor)


def _beginning(source: _Texts, at: Positions) -> _State:
    seed = np.full(len(at), _SEED, np.uint64)
    y = seed * _K1 + np.uint64(113)
    z = _folded(y * _K2 + np.uint64(113)) * _K2

    def nothing() -> tuple[Words, Words]:
        return np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)

    return _State(seed * _K2 + source.word(at), y, z, nothing(), nothing())


_CLASSES = (
    (0, 0, _empty),
    (1, 3, _up_to_3),
    (4, 7, _up_to_7),
    (8, 16, _up_to_16),
    (17, 32, _up_to_32),
    (33, _BLOCK_BYTES, _up_to_64),
    (_BLOCK_BYTES + 1, np.iinfo(np.int64).max, _longer),
)
