"""Which of the rows survive whose key the newest delivery lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.changes import overtaken_rows
from dedup_spark.adopt.comparison import places
from dedup_spark.adopt.found import EXAMPLES, Differences, KeptRows
from dedup_spark.adopt.picked import NO_WORDS, Picked, Values
from dedup_spark.adopt.sides import DateSides
from dedup_spark.adopt.ties import repeated_in, settle_ties
from dedup_spark.fingerprints.key_columns import Words
from dedup_spark.marks import STATE


def settle(
    sides: DateSides,
    others: Sequence[tuple[int, Picked]],
    other_words: Sequence[Words],
    missing: Words,
    found: Differences,
) -> None:
    """Of the rows whose key N lacks, the one of the highest update_id, then of the later delivery, survives."""
    others, other_words = _without_ties(sides, others, other_words, missing, found)
    rows = [places(words, missing) for words in other_words]
    words = np.concatenate([NO_WORDS, *(part[chosen] for part, chosen in zip(other_words, rows, strict=True))])
    ids = np.concatenate([_NO_NUMBERS, *(picked.ids[chosen] for (_, picked), chosen in zip(others, rows, strict=True))])
    sources = np.concatenate(
        [_NO_NUMBERS, *(np.full(len(chosen), source) for (source, _), chosen in zip(others, rows, strict=True))]
    )
    order = np.lexsort((sources, ids, words))
    ends = np.ones(len(order), dtype=bool)
    ends[:-1] = words[order][1:] != words[order][:-1]
    wins = np.zeros(len(order), dtype=bool)
    wins[order[ends]] = True
    if found.changed is not None:
        contents = [picked.contents[chosen] for (_, picked), chosen in zip(others, rows, strict=True)]
        found.changed += overtaken_rows(order, ends, sources == STATE, np.concatenate(contents))
    begin = 0
    for (source, picked), chosen in zip(others, rows, strict=True):
        winners = chosen[wins[begin : begin + len(chosen)]]
        begin += len(chosen)
        if source == STATE:
            _settle_state(sides, picked, winners, found)
        else:
            _keep(source, picked, winners, found)


def _without_ties(
    sides: DateSides,
    others: Sequence[tuple[int, Picked]],
    other_words: Sequence[Words],
    missing: Words,
    found: Differences,
) -> tuple[list[tuple[int, Picked]], list[Words]]:
    """Counts the ties of older deliveries, and settles those of keys that may survive. The parent has none."""
    by_source = dict(sides.older)
    left, left_words = [], []
    for (source, picked), words in zip(others, other_words, strict=True):
        if source != STATE:
            found.ties[source] += len(words) - len(np.unique(words))
            surviving = np.intersect1d(repeated_in(np.sort(words)), missing, assume_unique=True)
            if len(surviving):
                ties = settle_ties(by_source[source], picked, words, surviving)
                found.unknown += 0 if ties.ranked else len(ties.surplus)
                picked, words = ties.staying, ties.words
        left.append((source, picked))
        left_words.append(words)
    return left, left_words


def _settle_state(sides: DateSides, picked: Picked, winners: npt.NDArray[np.intp], found: Differences) -> None:
    """Base rows that win are kept by number; survivors stay where they are unless they lost or came back."""
    is_base = picked.ids == sides.base_id
    _keep(STATE, picked, winners[is_base[winners]], found)
    stays = is_base.copy()
    stays[winners] = True
    gone = np.flatnonzero(~stays)
    for file in np.unique(picked.files[gone]):
        found.removed[STATE, int(file)].append(picked.rows[gone[picked.files[gone] == file]])


def _keep(source: int, picked: Picked, rows: npt.NDArray[np.intp], found: Differences) -> None:
    for file in np.unique(picked.files[rows]):
        chosen = rows[picked.files[rows] == file]
        found.kept[source, int(file)].append(picked.rows[chosen])
        if picked.others is not None:
            places = pa.array(chosen)
            others = tuple(values.take(places) for values in picked.others)
            found.decoded[source, int(file)].append(KeptRows(take(picked, chosen), picked.ids[chosen], others))
    if len(rows) and len(found.survivor_examples) < EXAMPLES:
        found.survivor_examples.append(take(picked, rows[:EXAMPLES]))


def take(picked: Picked, rows: npt.NDArray[np.intp]) -> Values:
    chosen = pa.array(rows)
    return tuple(values.take(chosen) for values in picked.values)


_NO_NUMBERS: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
