"""Hashes texts to one 64-bit word each, which the hashes of keys and values then mix in as they do numbers.

Parquet files often have the texts of a column as a dictionary and numbers of its texts. Then each text of the
dictionary is hashed once, however many rows have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dedup_spark.arrays import I64Array, Indices, U64Array
from dedup_spark.arrow_cast import is_encoded
from dedup_spark.fingerprints.chains import QuickChain, blocks
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.storage import MAX_DICTIONARIES

_WORD_BYTES = 8
# A longer text is replaced by its digest, because mixing takes a call of numpy for each word of the longest text.
_LONG_TEXT_BYTES = 1024
# The hashes of so many dictionaries are kept: those of a batch, whose key columns have two each.
_DICTIONARIES = 2 * MAX_DICTIONARIES

Kinds = tuple[type[QuickChain], ...]


def text_hashes(array: pa.Array, seed: Seed, kinds: Kinds) -> Sequence[U64Array]:
    """For each kind of chain one hash of each text; NULL counts as the empty text. `array`: STRING or BYTES."""
    if not is_encoded(array):
        return _hashes(array, seed, kinds)
    texts = array.dictionary
    numbers = array.indices.fill_null(len(texts)).to_numpy()
    return [hashes[numbers] for hashes in _hashes_of_dictionary(_Dictionary(texts), seed, kinds)]


class _Dictionary:
    """A dictionary's texts, as a key of a cache: the batches of a file have equal ones, but not the same."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts

    def __hash__(self) -> int:
        return hash((len(self.texts), self.texts.nbytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Dictionary) and bool(self.texts.equals(other.texts))


@lru_cache(maxsize=_DICTIONARIES)
def _hashes_of_dictionary(dictionary: _Dictionary, seed: Seed, kinds: Kinds) -> Sequence[U64Array]:
    """The hashes of the dictionary's texts, and behind them those of the empty text."""
    texts = dictionary.texts
    return _hashes(pa.concat_arrays([texts, pa.array([b""]).cast(texts.type)]), seed, kinds)


def _hashes(array: pa.Array, seed: Seed, kinds: Kinds) -> Sequence[U64Array]:
    array = pc.fill_null(array, pa.scalar(b"").cast(array.type)) if array.null_count else array
    hashes = [np.empty(len(array), np.uint64) for _ in kinds]
    for rows in blocks(len(array)):
        states = zip(kinds, (of_kind[rows] for of_kind in hashes), strict=True)
        _mix([kind(state, seed, f"text {kind.__name__}") for kind, state in states], array[rows])
    return hashes


def _mix(chains: Sequence[QuickChain], array: pa.Array) -> None:
    """Mix in the length of each text, then its bytes, or those of a long text's digest, eight at a time.

    Without the length, bytes could move from the end of one column to the start of the next with the same hash.
    """
    _, offset_buffer, data_buffer = array.buffers()
    all_offsets = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = all_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    for chain in chains:
        chain.mix(lengths.view(np.uint64))
    if not len(array) or not lengths.any():
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + _WORD_BYTES, dtype=np.uint8)
    data[: end - begin] = np.frombuffer(data_buffer, dtype=np.uint8)[begin:end]
    starts = offsets[:-1] - begin
    is_long = lengths > _LONG_TEXT_BYTES
    _mix_digests(chains, data, np.flatnonzero(is_long), starts, lengths)
    _mix_words(chains, data, np.flatnonzero((lengths > 0) & ~is_long), starts, lengths)


def _mix_words(
    chains: Sequence[QuickChain], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mix in the texts of these rows, eight bytes at a time; the last word is filled up with zeros.

    `starts`, `lengths`: of the texts of all rows, in bytes of `data`.
    """
    # For each byte of the data, the word that begins with it: a view of overlapping words, without a copy.
    word_at: U64Array = np.ndarray((len(data) - _WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    mixed_bytes = 0
    while len(rows):
        words = word_at[starts[rows] + mixed_bytes].astype(np.uint64, copy=False)
        remaining_bytes = lengths[rows] - mixed_bytes
        unused_bits = np.maximum(_WORD_BYTES - remaining_bytes, 0).astype(np.uint64) * np.uint64(8)
        words = (words << unused_bits) >> unused_bits
        for chain in chains:
            chain.mix_some(rows, words)
        rows = rows[remaining_bytes > _WORD_BYTES]
        mixed_bytes += _WORD_BYTES


def _mix_digests(
    chains: Sequence[QuickChain], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mix in the 128-bit digests of the texts of these rows, each as two words."""
    if not len(rows):
        return
    digests = b"".join(
        blake2b(data[start : start + length].tobytes(), digest_size=16).digest()
        for start, length in zip(starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    )
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    for chain in chains:
        for number in (0, 1):
            chain.mix_some(rows, words[:, number].astype(np.uint64))
