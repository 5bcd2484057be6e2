"""What a comparison has found out about a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.picked import Picked, Values
from dedup_spark.adopt.ties import Ties
from dedup_spark.fingerprints.buckets import BucketFingerprints

EXAMPLES = 3


@dataclass(frozen=True)
class KeptRows:
    """Rows that survive, decoded: key columns, update_ids, value columns."""

    values: Values
    ids: npt.NDArray[np.int64]
    others: Values


@dataclass
class Differences:
    """`kept` are rows that survive and `removed` survivors that do not, by source and file number, row numbers.

    `decoded` are rows of `kept` as far as their values were at hand.
    `surplus` are N's rows of repeated keys that do not count. Of so many rows, N's or those of older deliveries that
    would survive, it is `unknown` which of a key counts; so many rows are `uncompared`, for they are too many: another
    plan has to write the date then. `fingerprints` are of N's distinct keys. `changed` is None where the values of both
    sides are not at hand.
    """

    fingerprints: BucketFingerprints
    buckets: int
    open_buckets: int
    new_keys: int = 0
    changed: int | None = None
    ranked: bool = False
    ties: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    kept: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = field(default_factory=lambda: defaultdict(list))
    decoded: defaultdict[tuple[int, int], list[KeptRows]] = field(default_factory=lambda: defaultdict(list))
    removed: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    surplus: list[Picked] = field(default_factory=list)
    unknown: int = 0
    uncompared: int = 0
    new_examples: list[Values] = field(default_factory=list)
    changed_examples: list[Values] = field(default_factory=list)
    survivor_examples: list[Values] = field(default_factory=list)

    @property
    def surplus_rows(self) -> int:
        return sum(map(len, self.surplus))

    def surplus_in(self, file: int) -> npt.NDArray[np.int64]:
        """Numbers of the surplus rows in N's file of this number, ascending."""
        rows = [part.rows[part.files == file] for part in self.surplus]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    def without_surplus(self, newest: Picked) -> Picked:
        """Of rows of N those that count."""
        counts = np.ones(len(newest), dtype=bool)
        for file in np.unique(newest.files):
            of_file = np.flatnonzero(newest.files == file)
            counts[of_file[np.isin(newest.rows[of_file], self.surplus_in(int(file)))]] = False
        return newest.only(np.flatnonzero(counts))

    def add_ties(self, ties: Ties) -> None:
        """Of N."""
        if len(ties.surplus):
            self.surplus.append(ties.surplus)
            self.unknown += 0 if ties.ranked else len(ties.surplus)
