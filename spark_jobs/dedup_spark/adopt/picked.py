"""What a pass over a side's rows is asked for, and what it brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.key_reader import Numbers
from dedup_spark.fingerprints.key_columns import Words

Rows = npt.NDArray[np.intp]
Values = tuple[pa.ChunkedArray, ...]

NO_WORDS: Words = np.zeros(0, dtype=np.uint64)
NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class ChosenRows(NamedTuple):
    """Numbers of rows that are picked, and of those of which hashes of their values are enough."""

    picked: Rows
    counted: Rows


# Told the first hashes of rows.
Choose = Callable[[Words], ChosenRows]


@dataclass(frozen=True)
class Picked:
    """Rows picked by a pass: their key columns, update_ids, and where they lie.

    `contents` are hashes of their values, empty where values are not compared; `others` are the values themselves,
    None where they were not decoded or are too many to be held. `firsts` are the keys' first hashes.
    """

    values: Values
    files: npt.NDArray[np.int32]
    rows: Numbers
    ids: Numbers
    contents: Words
    others: Values | None
    firsts: Words = field(default_factory=lambda: NO_WORDS)

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, rows: Rows) -> Picked:
        """Some of the rows, by number."""
        places = pa.array(rows)
        return Picked(
            values=tuple(values.take(places) for values in self.values),
            files=self.files[rows],
            rows=self.rows[rows],
            ids=self.ids[rows],
            firsts=self.firsts[rows],
            contents=self.contents[rows] if len(self.contents) else self.contents,
            others=None if self.others is None else tuple(values.take(places) for values in self.others),
        )


def picked_only(mask: npt.NDArray[np.bool_]) -> ChosenRows:
    """The rows of the mask; none is counted."""
    return ChosenRows(np.flatnonzero(mask), NO_ROWS)


def joined(parts: Sequence[tuple[pa.Array, ...] | None]) -> Values | None:
    """Column by column; None where a part is missing, or there is none to say the types."""
    present = [part for part in parts if part is not None]
    if not present or len(present) < len(parts):
        return None
    return in_one_piece(pa.chunked_array(list(column)) for column in zip(*present, strict=True))


def in_one_piece(columns: Iterable[pa.ChunkedArray]) -> Values:
    """A large date's rows come in thousands of batches, and taking some of them would look through all batches."""
    found = list(columns)
    return tuple(pa.table(found, names=[str(place) for place in range(len(found))]).combine_chunks().columns)
