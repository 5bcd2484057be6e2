"""Keys that a stranger builds so that their hashes agree: they did with a public, linear mixing, and do not now.

The mixing that is attacked here is the one of stored fingerprints up to version 2.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.seed import Seed

PUBLIC_SEED = 0x5DEECE66D1CE4E5D
MASK = 2**64 - 1
# Pairs of words in which a change of the second word undoes that of the first.
PAIRS = 20


def constants(number: int, word: int, part: int) -> tuple[int, int]:
    drawn = blake2b(f"{PUBLIC_SEED}/{number}/{word}/{part}".encode(), digest_size=16).digest()
    return int.from_bytes(drawn[:8], "big"), int.from_bytes(drawn[8:], "big") | 1


START, FACTOR = constants(1, 0, 0)


def step(state: int, word: int) -> int:
    product = (state ^ word) * FACTOR & MASK
    return product ^ product >> 32


def former_hashes(text: str) -> tuple[int, int]:
    """Both hashes of a text as the only key column, before the finalizers, which are bijective."""
    content = text.encode()
    words = [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content), 8)]
    state, total = step(START, len(content)), constants(2, 1, 0)[0] + len(content) * constants(2, 1, 0)[1]
    for number, word in enumerate(words):
        state, total = step(state, word), total + word * constants(2, 1, number + 1)[1]
    return state, total & MASK


def is_printable(word: int) -> bool:
    return all(33 <= byte < 127 for byte in word.to_bytes(8, "little"))


def words_with_a_twin(state: int, random: Random) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two printable pairs of words that lead from the chain's state to the same state."""
    while True:
        first, second = (int.from_bytes(bytes(random.choices(range(33, 127), k=8)), "little") for _ in range(2))
        twin = first ^ 0x20 << 56
        second_twin = second ^ step(state, first) ^ step(state, twin)
        if is_printable(twin) and is_printable(second_twin):
            return (first, second), (twin, second_twin)


def colliding_texts() -> tuple[str, str]:
    """Two printable texts of which both former hashes agree: pairs are chosen so that the sums agree too."""
    random, state, choices = Random(8), step(START, 16 * PAIRS), []
    for _ in range(PAIRS):
        choices.append(words_with_a_twin(state, random))
        state = step(step(state, choices[-1][0][0]), choices[-1][0][1])
    # What taking the twin adds to the second hash, pair by pair, and then for every set of pairs.
    added = [
        sum((twin[at] - own[at]) * constants(2, 1, 2 * number + at + 1)[1] for at in (0, 1)) & MASK
        for number, (own, twin) in enumerate(choices)
    ]
    totals = np.zeros(1, dtype=np.uint64)
    for one in added:
        totals = np.concatenate([totals, totals + np.uint64(one)])
    order = np.argsort(totals, kind="stable")
    (same, *_) = np.flatnonzero(totals[order][1:] == totals[order][:-1])
    one, other = (
        b"".join(
            word.to_bytes(8, "little")
            for number, pair in enumerate(choices)
            for word in pair[int(chosen) >> number & 1]
        )
        for chosen in order[same : same + 2]
    )
    return one.decode(), other.decode()


def test_texts_whose_former_hashes_agree_are_told_apart_with_any_seed() -> None:
    one, other = colliding_texts()
    assert one != other
    assert one.isprintable()
    assert other.isprintable()
    assert former_hashes(one) == former_hashes(other)
    for secret in (b"1", b"2", PUBLIC_SEED.to_bytes(8, "big")):
        first, second = KeyHasher((Column("key", "STRING"),), Seed(secret)).both([pa.array([one, other])])
        assert first[0] != first[1]
        assert second[0] != second[1]


def test_changes_of_the_highest_bits_cancel_in_neither_hash() -> None:
    """What one multiplication does to the highest bit of a word is known without the seed; the next word undid it."""
    words = np.random.default_rng(8).integers(-(2**63), 2**63, (2, 5000))
    twins = words ^ np.array([[-(2**63)], [-(2**63) | 2**31]])
    hasher = KeyHasher((Column("a", "INT64"), Column("b", "INT64")), Seed(b"a secret"))
    own, other = (np.array(hasher.both([pa.array(column) for column in pair])) for pair in (words, twins))
    assert (own[0] != other[0]).all()
    assert ((own != other).any(axis=0)).all()
