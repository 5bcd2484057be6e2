"""What a date's one delivery changes, found by fingerprints first and by keys where these differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.manifest import Difference
from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.adopt.key_words import pack
from dedup_spark.adopt.picked import Picked
from dedup_spark.adopt.repeated_keys import find_ties
from dedup_spark.adopt.side import Side, in_buckets
from dedup_spark.adopt.slices import slices_of, too_many
from dedup_spark.adopt.ties import Ties, repeated_in, settle_ties
from dedup_spark.examples import MOST_A_DATE, key_texts
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.buckets import BucketFingerprints, bits_for
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.rewrite.orders import DeliveredFiles, Regime, RewriteOrder
from dedup_spark.rewrite.pairs import Pairs, match

# Rows compared at a time, and how often the files may be read for that: what differs more is sooner done by a shuffle.
SLICE_ROWS = 4 << 20
MOST_SLICES = 8
# Hashes sorted at a time.
_HASHES = 16 << 20
_TOO_MANY_TIES = "the delivery holds keys more than once: [{}] surplus rows, more than are looked for here"
# Carried fingerprints with so many fewer bits than wanted would open too many buckets.
_COARSER_BITS = 3

Numbers = dict[int, npt.NDArray[np.int64]]


@dataclass
class Changes:
    """`taken` delivered rows and `removed` rows of the parent, by file number: row numbers, ascending.

    `taken` is None where all are taken but the `surplus` rows, which lost a tie; `ties` is how many did. `fingerprints`
    are of the delivery's keys and values, each key once. `carried` says whether the parent's were at hand.
    """

    fingerprints: BucketFingerprints
    carried: bool
    buckets: int
    open_buckets: int
    new_keys: int = 0
    changed: int = 0
    ties: int = 0
    taken: Numbers | None = field(default_factory=dict)
    surplus: Numbers = field(default_factory=dict)
    removed: Numbers = field(default_factory=dict)
    examples: dict[Difference, list[str]] = field(default_factory=lambda: {kind: [] for kind in Difference})

    @property
    def nothing(self) -> bool:
        return not self.new_keys and not self.removed


def find_changes(table: TableContract, order: RewriteOrder, newest: Side, held: Side | None) -> Changes | str:
    """Returns the obstacle as text where the date is to be left to Spark. `order` has a delivery."""
    assert order.delivered
    columns, state = key_columns(table), order.held
    if state is None or held is None:
        return _all_new(columns, order.delivered, newest)
    before = _carried(order, columns) if order.regime is Regime.BY_VALUE else None
    bits = bits_for(order.delivered.rows, state.differing_share)
    if before and before.bits < bits - _COARSER_BITS:
        before = None
    fingerprints = newest.fingerprints(bits)
    common = min(bits, before.bits) if before else bits
    is_open = np.ones(1 << common, dtype=bool)
    if before:
        now, then = fingerprints.folded(common), before.folded(common)
        other_values = now.values_differ(then)
        is_open = now.differs(then) if other_values is None else now.differs(then) | other_values
    found = Changes(fingerprints, before is not None, len(is_open), int(is_open.sum()))
    expected = fingerprints.folded(common).counts + state.rows / len(is_open)
    slices = slices_of(np.where(is_open, expected, 0.0), SLICE_ROWS)
    if len(slices) > MOST_SLICES:
        return too_many(expected[is_open].sum())
    taken: _Gathered = defaultdict(list)
    removed: _Gathered = defaultdict(list)
    all_ties = []
    for part in slices:
        choose = in_buckets(part.of(is_open), common)
        delivered, theirs = newest.pick(choose), held.pick(choose)
        words, held_words = pack(columns, [delivered.values, theirs.values]).parts
        pairs = match(words, held_words, delivered, theirs, order.regime, order.delivered.snapshot_id)
        if pairs is None:
            ties = settle_ties(newest, delivered, words, repeated_in(np.sort(words)))
            if not ties.ranked:
                return _TOO_MANY_TIES.format(len(ties.surplus))
            all_ties.append(ties)
            delivered = ties.staying
            pairs = match(ties.words, held_words, delivered, theirs, order.regime, order.delivered.snapshot_id)
            assert pairs
        found.new_keys += len(pairs.new)
        found.changed += len(pairs.changed)
        _gather(taken, delivered, np.concatenate([pairs.new, pairs.fresh]))
        _gather(removed, theirs, pairs.replaced)
        _add_examples(table, found.examples, delivered, theirs, pairs)
    found.taken, found.removed = _sorted(taken), _sorted(removed)
    _remove_ties(newest, all_ties, found)
    return found


def _all_new(columns: tuple[Column, ...], delivered: DeliveredFiles, newest: Side) -> Changes | str:
    """Without rows of the parent only repeated keys are looked for, by hashes."""
    bits = bits_for(delivered.rows, None)
    fingerprints = newest.fingerprints(bits)
    found = Changes(fingerprints, False, 1 << bits, 1 << bits, taken=None)
    all_ties = list(find_ties(newest, columns, slices_of(fingerprints.counts.astype(float), _HASHES), bits))
    if not all(ties.ranked for ties in all_ties):
        return _TOO_MANY_TIES.format(sum(len(ties.surplus) for ties in all_ties))
    surplus: _Gathered = defaultdict(list)
    for ties in all_ties:
        _gather(surplus, ties.surplus, np.arange(len(ties.surplus)))
    found.surplus = _sorted(surplus)
    _remove_ties(newest, all_ties, found)
    found.new_keys = fingerprints.rows
    return found


def _remove_ties(newest: Side, all_ties: list[Ties], found: Changes) -> None:
    """The next publish is to see each key once."""
    for ties in all_ties:
        found.ties += len(ties.surplus)
        found.fingerprints.remove(*newest.both_hashes(ties.surplus), ties.surplus.contents)


def _carried(order: RewriteOrder, columns: tuple[Column, ...]) -> BucketFingerprints | None:
    """Keys and values that the date's newest delivery had. All of these rows are the parent's, as it had them."""
    held = order.held
    if held is None or held.key_fingerprint is None or held.content_fingerprint is None:
        return None
    found = stored.read(storage.join(held.data_uri, stored.path_of(order.day)), columns, held.key_fingerprint)
    if found is None or found.buckets.contents_digest() != held.content_fingerprint:
        return None
    return found.buckets if found.buckets.rows == held.rows - held.survivors else None


_Gathered = defaultdict[int, list[npt.NDArray[np.int64]]]


def _gather(gathered: _Gathered, picked: Picked, places: npt.NDArray[np.intp]) -> None:
    for file in np.unique(picked.files[places]):
        gathered[int(file)].append(picked.rows[places[picked.files[places] == file]])


def _sorted(gathered: _Gathered) -> Numbers:
    return {file: np.sort(np.concatenate(parts)) for file, parts in gathered.items()}


def _add_examples(
    table: TableContract, examples: dict[Difference, list[str]], delivered: Picked, held: Picked, pairs: Pairs
) -> None:
    for difference, picked, places in (
        (Difference.NEW, delivered, pairs.new),
        (Difference.CHANGED, held, pairs.changed),
        (Difference.SURVIVOR, held, pairs.missing),
    ):
        wanted = MOST_A_DATE - len(examples[difference])
        if wanted > 0 and len(places):
            some = pa.array(places[:wanted])
            examples[difference] += key_texts(table, [column.take(some).to_pylist() for column in picked.values])
