"""Computes the right answers to the readers' queries, and finds the wrong ones among the answers that readers got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]
Answer = tuple[tuple[Any, ...], ...]

PRODUCTS_IN_ROWS_QUERY = 2


class ReaderQuery(StrEnum):
    """The readers' queries. Every publish of a new snapshot changes the answer to each.

    TOTALS: count and sum of the table. TOTALS_BY_SNAPSHOT: count and sum for each update_id. ROWS: whole rows of the
    products below PRODUCTS_IN_ROWS_QUERY.
    """

    TOTALS = "SELECT COUNT(*) AS n, SUM(attr_value) AS total FROM {table}"
    TOTALS_BY_SNAPSHOT = (
        "SELECT update_id, COUNT(*) AS n, SUM(attr_value) AS total FROM {table} GROUP BY update_id ORDER BY update_id"
    )
    ROWS = f"SELECT * FROM {{table}} WHERE product_id < {PRODUCTS_IN_ROWS_QUERY} ORDER BY date, product_id"


def expected_answers(rows: Sequence[Row], columns: Sequence[str]) -> dict[ReaderQuery, Answer]:
    """The answer to each query on a table with these rows and columns. A value that a row lacks is NULL."""
    count_and_sum: dict[int, tuple[int, int]] = {}
    for row in rows:
        count, total = count_and_sum.get(row["update_id"], (0, 0))
        count_and_sum[row["update_id"]] = (count + 1, total + row["attr_value"])
    totals_by_snapshot = tuple((id_, *count_and_sum[id_]) for id_ in sorted(count_and_sum))
    totals = (sum(count for _, count, _ in totals_by_snapshot), sum(total for _, _, total in totals_by_snapshot))
    whole_rows = sorted(
        (row for row in rows if row["product_id"] < PRODUCTS_IN_ROWS_QUERY),
        key=lambda row: (row["date"], row["product_id"]),
    )
    return {
        ReaderQuery.TOTALS: (totals,),
        ReaderQuery.TOTALS_BY_SNAPSHOT: totals_by_snapshot,
        ReaderQuery.ROWS: tuple(tuple(row.get(name) for name in columns) for row in whole_rows),
    }


@dataclass(frozen=True)
class Swap:
    """A swap that took effect between `began` and `ended`, in seconds of `time.monotonic()`.

    `expected_answers`: the answers that readers must get while the swap's generation is live.
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


def find_wrong_answers(observed: Iterable[ObservedAnswer], swaps: list[Swap]) -> list[str]:
    """The wrong answers of one reader, as sentences. `observed`: all answers of the reader, in order.

    An answer is right if it is that of a generation that can have been live during the query, and that is not older
    than the generation of the reader's previous answer.
    """
    problems: list[str] = []
    last_index = 0  # of the swap whose generation the reader saw last; before any answer, of the first swap
    for answer in observed:
        if answer.error:
            problems.append(f"a query failed: {answer.error}")
            continue
        matching = [i for i, swap in enumerate(swaps) if swap.expected_answers[answer.query] == answer.answer]
        allowed = [i for i in matching if i >= last_index and _may_be_live(i, answer, swaps)]
        if allowed:
            last_index = allowed[0]
        elif not matching:
            problems.append(f"{answer.query.name} answered {answer.answer}, which no generation does")
        else:
            generations = [swaps[i].generation for i in matching]
            seen_before = swaps[last_index].generation
            problems.append(
                f"{answer.query.name} answered as of generation {generations}, which was not live during the query, or "
                f"older than generation {seen_before}, which the reader had seen"
            )
    return problems


def _may_be_live(index: int, answer: ObservedAnswer, swaps: list[Swap]) -> bool:
    """Whether the generation of the swap with this index can have been live at some instant during the query."""
    next_swap = swaps[index + 1] if index + 1 < len(swaps) else None
    return swaps[index].began <= answer.ended and (next_swap is None or next_swap.ended >= answer.began)
