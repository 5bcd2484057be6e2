"""What readers may see and when: one entry for each swap, and the answers that its generation gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Answer = tuple[tuple[int, ...], ...]


class Question(StrEnum):
    """What a reader asks. The answers of two generations always differ."""

    WHOLE = "SELECT COUNT(*) AS n, SUM(attr_value) AS total FROM {table}"
    BY_SNAPSHOT = (
        "SELECT update_id, COUNT(*) AS n, SUM(attr_value) AS total FROM {table} GROUP BY update_id ORDER BY update_id"
    )


def answers(rows: Iterable[Row]) -> dict[Question, Answer]:
    """What a table of these rows answers."""
    by_snapshot: dict[int, tuple[int, int]] = {}
    for row in rows:
        count, total = by_snapshot.get(row["update_id"], (0, 0))
        by_snapshot[row["update_id"]] = (count + 1, total + row["attr_value"])
    each = tuple((id_, *by_snapshot[id_]) for id_ in sorted(by_snapshot))
    whole = (sum(count for _, count, _ in each), sum(total for _, _, total in each))
    return {Question.WHOLE: (whole,), Question.BY_SNAPSHOT: each}


@dataclass(frozen=True)
class Swap:
    """`began` and `ended` (monotonic seconds): the swap took effect in between, at one instant."""

    generation: int
    answers: Mapping[Question, Answer]
    began: float
    ended: float


@dataclass(frozen=True)
class Seen:
    """One query of one reader; `error` instead of an answer when it failed."""

    question: Question
    began: float
    ended: float
    answer: Answer
    error: str = ""


def faults(seen: Iterable[Seen], swaps: list[Swap]) -> list[str]:
    """What one reader, who asks one question after the other, has seen that it must not see."""
    found: list[str] = []
    last = 0
    for one in seen:
        if one.error:
            found.append(f"a query failed: {one.error}")
            continue
        fitting = [i for i, swap in enumerate(swaps) if swap.answers[one.question] == one.answer]
        possible = [i for i in fitting if _may_be_live(i, one, swaps)]
        forward = [i for i in possible if i >= last]
        if forward:
            last = forward[0]
        elif not fitting:
            found.append(f"{one.question.name} answered {one.answer}, which no generation does")
        else:
            generations = [swaps[i].generation for i in fitting]
            seen_before = swaps[last].generation
            found.append(f"{one.question.name} answered as of generation {generations} after generation {seen_before}")
    return found


def _may_be_live(index: int, one: Seen, swaps: list[Swap]) -> bool:
    """Whether the generation may have been live at some instant of the query."""
    follower = swaps[index + 1] if index + 1 < len(swaps) else None
    return swaps[index].began <= one.ended and (follower is None or follower.ended >= one.began)
