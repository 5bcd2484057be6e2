"""Which answers a reader may get while swaps replace one generation by the next."""

from __future__ import annotations

from soak.readers.expected_answers import (
    Answer,
    ObservedAnswer,
    ReaderQuery,
    Swap,
    expected_answers,
    find_wrong_answers,
)


def make_swap(number: int, value: int, began: float) -> Swap:
    """A swap between second `began` and the second after it, of a table with one row."""
    row = {"date": 1, "product_id": 1, "update_id": number, "attr_value": value}
    return Swap(number, expected_answers([row], tuple(row)), began, began + 1)


SWAPS = [make_swap(1, 10, 0), make_swap(2, 20, 10), make_swap(3, 10, 20), make_swap(4, 40, 30)]


def answer_of(swap: Swap, began: float, ended: float) -> ObservedAnswer:
    """The right answer of the swap's generation, observed between `began` and `ended`."""
    return ObservedAnswer(ReaderQuery.TOTALS, began, ended, swap.expected_answers[ReaderQuery.TOTALS])


def test_answers_of_a_table_are_its_counts_sums_and_rows() -> None:
    names = ("date", "product_id", "update_id", "attr_value")
    rows = [dict(zip(names, values, strict=True)) for values in ((2, 0, 7, 1), (1, 9, 8, 2), (1, 1, 7, 3))]
    found = expected_answers(rows, (*names, "added"))
    assert found[ReaderQuery.TOTALS] == ((3, 6),)
    assert found[ReaderQuery.TOTALS_BY_SNAPSHOT] == ((7, 2, 4), (8, 1, 2))
    assert found[ReaderQuery.ROWS] == ((1, 1, 7, 3, None), (2, 0, 7, 1, None))


def test_answers_in_the_order_of_the_swaps_are_right() -> None:
    assert (
        find_wrong_answers([answer_of(SWAPS[0], 5, 6), answer_of(SWAPS[1], 15, 16), answer_of(SWAPS[3], 35, 36)], SWAPS)
        == []
    )


def test_a_query_during_a_swap_may_read_either_generation() -> None:
    assert find_wrong_answers([answer_of(SWAPS[0], 10.2, 10.4)], SWAPS) == []
    assert find_wrong_answers([answer_of(SWAPS[1], 10.2, 10.4)], SWAPS) == []


def test_the_generation_before_a_finished_swap_is_a_wrong_answer() -> None:
    (problem,) = find_wrong_answers([answer_of(SWAPS[1], 35, 36)], SWAPS)
    assert "as of generation [2], which was not live during the query" in problem


def test_an_older_generation_than_in_the_answer_before_is_a_wrong_answer() -> None:
    (problem,) = find_wrong_answers([answer_of(SWAPS[1], 10.1, 10.2), answer_of(SWAPS[0], 10.3, 10.4)], SWAPS)
    assert "older than generation 2" in problem


def test_the_content_of_an_earlier_generation_is_right_after_a_rollback_to_it() -> None:
    assert find_wrong_answers([answer_of(SWAPS[1], 15, 16), answer_of(SWAPS[2], 25, 26)], SWAPS) == []


def test_an_answer_that_mixes_generations_is_wrong() -> None:
    mixed: Answer = ((2, 30),)
    (problem,) = find_wrong_answers([ObservedAnswer(ReaderQuery.TOTALS, 15, 16, mixed)], SWAPS)
    assert "which no generation does" in problem


def test_a_failed_query_is_a_wrong_answer() -> None:
    (problem,) = find_wrong_answers([ObservedAnswer(ReaderQuery.TOTALS, 15, 16, (), "NotFound: 404")], SWAPS)
    assert "NotFound" in problem
