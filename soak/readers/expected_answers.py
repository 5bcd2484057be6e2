"""Computes which answers the readers' queries may have, and finds the wrong ones among those that readers got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]
Answer = tuple[tuple[Any, ...], ...]

PRODUCTS_READ_WHOLE = 2


class ReaderQuery(StrEnum):
    """The readers' queries. The answer to each shows which generation was read: it differs between any two."""

    WHOLE = "SELECT COUNT(*) AS n, SUM(attr_value) AS total FROM {table}"
    BY_SNAPSHOT = (
        "SELECT update_id, COUNT(*) AS n, SUM(attr_value) AS total FROM {table} GROUP BY update_id ORDER BY update_id"
    )
    ROWS = f"SELECT * FROM {{table}} WHERE product_id < {PRODUCTS_READ_WHOLE} ORDER BY date, product_id"


def expected_answers(rows: Sequence[Row], columns: Sequence[str]) -> dict[ReaderQuery, Answer]:
    """The answer to each query on a table with these rows and columns. A value that a row lacks is NULL."""
    by_snapshot: dict[int, tuple[int, int]] = {}
    for row in rows:
        count, total = by_snapshot.get(row["update_id"], (0, 0))
        by_snapshot[row["update_id"]] = (count + 1, total + row["attr_value"])
    answer_by_snapshot = tuple((id_, *by_snapshot[id_]) for id_ in sorted(by_snapshot))
    whole = (sum(count for _, count, _ in answer_by_snapshot), sum(total for _, _, total in answer_by_snapshot))
    read_whole = sorted(
        (row for row in rows if row["product_id"] < PRODUCTS_READ_WHOLE),
        key=lambda row: (row["date"], row["product_id"]),
    )
    return {
        ReaderQuery.WHOLE: (whole,),
        ReaderQuery.BY_SNAPSHOT: answer_by_snapshot,
        ReaderQuery.ROWS: tuple(tuple(row.get(name) for name in columns) for row in read_whole),
    }


@dataclass(frozen=True)
class Swap:
    """A swap, which took effect at some instant between `began` and `ended`, in seconds of `time.monotonic()`.

    `expected_answers`: the answers that readers must get while the generation is live.
    """

    generation: int
    expected_answers: Mapping[ReaderQuery, Answer]
    began: float
    ended: float


@dataclass(frozen=True)
class ObservedAnswer:
    """The answer that one reader got to one query between `began` and `ended`, in seconds of `time.monotonic()`.

    `error`: empty unless the query failed.
    """

    query: ReaderQuery
    began: float
    ended: float
    answer: Answer
    error: str = ""


def find_faults(observed: Iterable[ObservedAnswer], swaps: list[Swap]) -> list[str]:
    """The wrong answers of one reader, as sentences. `observed`: all its answers, in the order of its queries.

    An answer is right if it is that of a generation that may have been live during the query, and if that generation is
    not older than the one that the reader saw before.
    """
    faults: list[str] = []
    last_index = 0
    for one in observed:
        if one.error:
            faults.append(f"a query failed: {one.error}")
            continue
        matching = [i for i, swap in enumerate(swaps) if swap.expected_answers[one.query] == one.answer]
        allowed = [i for i in matching if i >= last_index and _may_be_live(i, one, swaps)]
        if allowed:
            last_index = allowed[0]
        elif not matching:
            faults.append(f"{one.query.name} answered {one.answer}, which no generation does")
        else:
            generations = [swaps[i].generation for i in matching]
            seen_before = swaps[last_index].generation
            faults.append(f"{one.query.name} answered as of generation {generations} after generation {seen_before}")
    return faults


def _may_be_live(index: int, one: ObservedAnswer, swaps: list[Swap]) -> bool:
    """Whether the generation of the swap with this index may have been live at some instant during the query."""
    next_swap = swaps[index + 1] if index + 1 < len(swaps) else None
    return swaps[index].began <= one.ended and (next_swap is None or next_swap.ended >= one.began)
