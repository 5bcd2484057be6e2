"""What a date's newest delivery N changes, found without reading rows: survivors, new keys, repetitions.

The parent's date is a base B (the rows with its highest update_id) and survivors S, disjoint from B. Where the bucket
fingerprints of N, B and the older deliveries agree they hold the same keys: none of S is among them, all of S stays,
nothing survives from B. In the other buckets the keys themselves are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.changes import changed_rows
from dedup_spark.adopt.comparison import compare, places
from dedup_spark.adopt.found import EXAMPLES, Differences
from dedup_spark.adopt.key_words import pack
from dedup_spark.adopt.picked import NO_ROWS, NO_WORDS, Picked
from dedup_spark.adopt.picking import pick_differing
from dedup_spark.adopt.repeated_keys import find_ties
from dedup_spark.adopt.selection import Mask, Selection, select, select_whole
from dedup_spark.adopt.settling import settle, take
from dedup_spark.adopt.sides import DateSides, DeliveredFingerprints
from dedup_spark.adopt.slices import slices_of
from dedup_spark.adopt.ties import among, settle_ties
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.key_columns import Words
from dedup_spark.marks import STATE


@dataclass(frozen=True)
class Limits:
    """Rows compared at a time, and hashes sorted at a time: the memory that one date may take.

    For more rows than fit, the files are read again, `passes` times at most.
    """

    rows: int
    hashes: int
    passes: int


# About 100 bytes a row and 8 a hash.
LIMITS = Limits(rows=2 << 20, hashes=32 << 20, passes=8)


def find_differences(sides: DateSides, delivered: DeliveredFingerprints, *, exact: bool, limits: Limits) -> Differences:
    """`exact` compares all keys themselves, whatever the fingerprints say."""
    newest, older, base = delivered.newest, delivered.older, sides.base
    common = min(sides.bits, base.bits) if base else sides.bits
    folded = [part.folded(common) for part in (newest, *([base] if base else []), *older)]
    is_open = np.full(1 << common, exact and len(folded) > 1)
    for other in folded[1:]:
        is_open |= folded[0].differs(other)
    values_differ = folded[0].values_differ(folded[1]) if base else None
    if values_differ is not None:
        is_open |= values_differ
    found = Differences(newest, len(is_open), int(is_open.sum()), changed=None if values_differ is None else 0)
    if base is None:
        _find_repeated(sides, folded[0], limits, found)
        found.new_keys = newest.rows - found.surplus_rows
        _count_same_ties(sides, is_open, common, found)
    expected = np.full(1 << common, sides.survivor_rows / (1 << common), dtype=np.float32)
    for part in folded:
        expected += part.counts
    # With several deliveries a bucket has more than two sides, and no sum tells them apart.
    narrow = base is not None and not older and not exact
    selection = select(folded[0], folded[1]) if narrow else select_whole(is_open, common)
    if narrow and _is_lopsided(sides, selection, expected, limits):
        _find_repeated(sides, folded[0], limits, found)
        _compare_with_few(sides, folded[0], is_open, found)
    else:
        left = _compare_slices(sides, selection, expected, limits, found)
        if len(left):
            is_open = np.zeros_like(is_open)
            is_open[left] = True
            _compare_slices(sides, select_whole(is_open, common), expected, limits, found)
    for surplus in found.surplus:
        newest.remove(*sides.newest.both_hashes(surplus), surplus.contents)
    if found.unknown:
        newest.contents = None
    return found


def _find_repeated(sides: DateSides, newest: BucketFingerprints, limits: Limits, found: Differences) -> None:
    """Of the newest delivery's keys, whatever the parent holds."""
    slices = slices_of(newest.counts, limits.hashes)
    for ties in find_ties(sides.newest, sides.columns, slices, newest.bits):
        found.add_ties(ties)


def _count_same_ties(sides: DateSides, is_open: Mask, bits: int, found: Differences) -> None:
    """In a bucket that is not compared the older deliveries hold the same keys, as often."""
    surplus = (surplus.firsts for surplus in found.surplus)
    closed = sum(int((~is_open[bucket_of(firsts, bits)]).sum()) for firsts in surplus)
    for source, _ in sides.older:
        found.ties[source] += closed


def _is_lopsided(sides: DateSides, selection: Selection, expected: npt.NDArray[np.float32], limits: Limits) -> bool:
    """The delivery differs too much for a few passes over both sides, and the parent's rows are few."""
    assert sides.base
    passes = len(slices_of(selection.weights(expected), limits.rows))
    return passes > limits.passes and sides.base.rows + sides.survivor_rows <= limits.rows


def _compare_with_few(sides: DateSides, newest: BucketFingerprints, is_open: Mask, found: Differences) -> None:
    """All rows of the parent's open buckets at once, with those of the delivery that have a hash of theirs."""
    assert sides.state
    state = sides.state.pick(select_whole(is_open, newest.bits).rows, with_others=True)
    shared = found.without_surplus(sides.newest.pick(among(np.unique(state.firsts))))
    # Where a key is repeated the buckets differ: all surplus rows are among those counted.
    found.new_keys += int(newest.counts[is_open].sum()) - found.surplus_rows - len(shared)
    _compare_picked(sides, shared, [(STATE, state)], found, with_repeated=False)


def _compare_slices(
    sides: DateSides, selection: Selection, expected: npt.NDArray[np.float32], limits: Limits, found: Differences
) -> npt.NDArray[np.intp]:
    """`expected` rows by bucket. Returns the buckets that were left out (see `pick_differing`)."""
    weights = selection.weights(expected)
    slices = slices_of(weights, limits.rows)
    if len(slices) > limits.passes:
        found.uncompared += int(weights.sum())
        return NO_ROWS
    return np.concatenate([NO_ROWS, *(_compare_keys(sides, selection.of(part), found) for part in slices)])


def _compare_keys(sides: DateSides, selection: Selection, found: Differences) -> npt.NDArray[np.intp]:
    """Returns the buckets that were left out."""
    picked = pick_differing(sides, selection)
    others = [(STATE, picked.state)] if sides.state else []
    others += [(source, side.pick(selection.rows)) for source, side in sides.older]
    if found.changed is not None:
        found.changed += picked.changed
    _compare_picked(sides, picked.newest, others, found, with_repeated=sides.state is not None)
    return picked.left


def _compare_picked(
    sides: DateSides, newest: Picked, others: Sequence[tuple[int, Picked]], found: Differences, *, with_repeated: bool
) -> None:
    """`others` are the parent's rows, where there is one, and then the older deliveries'."""
    packed = pack(sides.columns, [newest.values, *(picked.values for _, picked in others)])
    words, other_words = packed.parts[0], packed.parts[1:]
    found.ranked |= packed.ranked
    compared = compare(words, np.concatenate([NO_WORDS, *other_words]), EXAMPLES)
    if with_repeated and len(compared.surplus):
        ties = settle_ties(sides.newest, newest, words, np.unique(compared.surplus))
        found.add_ties(ties)
        newest, words = ties.staying, ties.words
    if found.changed is not None:
        missing = compare(words, other_words[0], 0).missing if sides.older else compared.missing
        count, rows = changed_rows(newest, others[0][1], other_words[0], missing, EXAMPLES)
        found.changed += count
        if len(rows) and len(found.changed_examples) < EXAMPLES:
            found.changed_examples.append(take(others[0][1], rows))
    if sides.older:
        _count_new(sides, [newest, *(picked for _, picked in others)], [words, *other_words], found)
    else:
        found.new_keys += compared.added
        _add_new_examples(newest, words, compared.added_sample, found)
    settle(sides, others, other_words, compared.missing, found)


def _count_new(sides: DateSides, picked: Sequence[Picked], parts: Sequence[Words], found: Differences) -> None:
    """Keys of any delivery that the parent lacks. Without a parent N's own are counted already."""
    first_older = 2 if sides.state else 1
    delivered = [0, *range(first_older, len(parts))]
    held = parts[1] if sides.state else parts[0]
    asked = np.concatenate([parts[number] for number in (delivered if sides.state else delivered[1:])] or [NO_WORDS])
    compared = compare(asked, held, EXAMPLES)
    found.new_keys += compared.added
    for number in delivered:
        _add_new_examples(picked[number], parts[number], compared.added_sample, found)


def _add_new_examples(picked: Picked, words: Words, wanted: Words, found: Differences) -> None:
    rows = places(words, wanted)[:EXAMPLES]
    if len(rows) and len(found.new_examples) < EXAMPLES:
        found.new_examples.append(take(picked, rows))
