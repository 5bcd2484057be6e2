"""Computes two independent 64-bit hashes of keys, column by column.

A key's columns are a sequence of 64-bit words, of which a strong and a quick chain make one hash each (`chains.py`).
Keys of one number never collide. Columns are hashed with their declared types, so hashes can be stored, unlike the keys
that `comparison/keys.py` packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import U64Array
from dedup_spark.fingerprints.chains import QuickChain, StrongChain, blocks
from dedup_spark.fingerprints.key_columns import fixed_words, is_text
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.fingerprints.texts import text_hashes

# Increase it when a hash function of this folder changes: erased keys are recorded as hashes.
VERSION = 4
# Kind and name of the chains of both hashes.
_FIRST, _SECOND = (StrongChain, "first"), (QuickChain, "second")


@dataclass(frozen=True)
class KeyHasher:
    """Hashes rows by the given key columns. With one seed, equal keys have equal hashes in every file and every job."""

    columns: tuple[Column, ...]
    seed: Seed

    def first(self, values: Sequence[pa.Array]) -> U64Array:
        """The first hash of each row. `values`: the key columns, of the declared types."""
        (first,) = self._hashes(values, [_FIRST])
        return first

    def both(self, values: Sequence[pa.Array]) -> tuple[U64Array, U64Array]:
        """The first and the second hash of each row."""
        first, second = self._hashes(values, [_FIRST, _SECOND])
        return first, second

    def _hashes(self, values: Sequence[pa.Array], chains: Sequence[tuple[type[QuickChain], str]]) -> list[U64Array]:
        hashes = [np.empty(len(values[0]), np.uint64) for _ in chains]
        kinds = tuple(kind for kind, _ in chains)
        columns = [self._words(column, array, kinds) for column, array in zip(self.columns, values, strict=True)]
        for rows in blocks(len(values[0])):
            for number, (kind, name) in enumerate(chains):
                chain = kind(hashes[number][rows], self.seed, name)
                for words_by_chain in columns:
                    for words in words_by_chain[number]:
                        chain.mix(words[rows])
                chain.finish()
        return hashes

    def _words(
        self, column: Column, values: pa.Array, kinds: tuple[type[QuickChain], ...]
    ) -> Sequence[Sequence[U64Array]]:
        """For each kind of chain the words of a column that it mixes in."""
        if is_text(column):
            return [[hashes] for hashes in text_hashes(values, self.seed, kinds)]
        return [fixed_words(column, values)] * len(kinds)
