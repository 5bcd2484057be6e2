"""What a comparison has found out about a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.repeated_keys import Values
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
    `repeated` are the keys that N holds more often than once, one entry for each surplus row; `unresolved` older
    deliveries hold a surviving key twice: only their values could tell which row counts. So many rows are `uncompared`,
    for they are too many; nothing else is known then. `fingerprints` are of N's distinct keys. `changed` is None where
    the values of both sides are not at hand.
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
    repeated: list[Values] = field(default_factory=list)
    unresolved: int = 0
    uncompared: int = 0
    new_examples: list[Values] = field(default_factory=list)
    changed_examples: list[Values] = field(default_factory=list)
    survivor_examples: list[Values] = field(default_factory=list)

    @property
    def surplus_rows(self) -> int:
        return sum(len(values[0]) for values in self.repeated)
