"""What a reader may see while generations follow each other."""

from __future__ import annotations

from soak.readers.expected_answers import (
    Answer,
    ObservedAnswer,
    ReaderQuery,
    Swap,
    expected_answers,
    find_wrong_answers,
)


def generation(number: int, value: int, began: float) -> Swap:
    """Goes live between `began` and a second later."""
    row = {"date": 1, "product_id": 1, "update_id": number, "attr_value": value}
    return Swap(number, expected_answers([row], tuple(row)), began, began + 1)


SWAPS = [generation(1, 10, 0), generation(2, 20, 10), generation(3, 10, 20), generation(4, 40, 30)]


def seen(swap: Swap, began: float, ended: float) -> ObservedAnswer:
    return ObservedAnswer(ReaderQuery.TOTALS, began, ended, swap.expected_answers[ReaderQuery.TOTALS])


def test_answers_of_a_table_are_its_counts_sums_and_rows() -> None:
    names = ("date", "product_id", "update_id", "attr_value")
    rows = [dict(zip(names, values, strict=True)) for values in ((2, 0, 7, 1), (1, 9, 8, 2), (1, 1, 7, 3))]
    found = expected_answers(rows, (*names, "added"))
    assert found[ReaderQuery.TOTALS] == ((3, 6),)
    assert found[ReaderQuery.TOTALS_BY_SNAPSHOT] == ((7, 2, 4), (8, 1, 2))
    assert found[ReaderQuery.ROWS] == ((1, 1, 7, 3, None), (2, 0, 7, 1, None))


def test_a_reader_that_follows_the_swaps_sees_nothing_wrong() -> None:
    assert find_wrong_answers([seen(SWAPS[0], 5, 6), seen(SWAPS[1], 15, 16), seen(SWAPS[3], 35, 36)], SWAPS) == []


def test_a_query_that_overlaps_a_swap_may_see_either_generation() -> None:
    assert find_wrong_answers([seen(SWAPS[0], 10.2, 10.4)], SWAPS) == []
    assert find_wrong_answers([seen(SWAPS[1], 10.2, 10.4)], SWAPS) == []


def test_an_old_generation_after_the_swap_is_over_is_a_fault() -> None:
    (fault,) = find_wrong_answers([seen(SWAPS[1], 35, 36)], SWAPS)
    assert "as of generation [2]" in fault


def test_a_step_back_during_one_swap_is_a_fault() -> None:
    (fault,) = find_wrong_answers([seen(SWAPS[1], 10.1, 10.2), seen(SWAPS[0], 10.3, 10.4)], SWAPS)
    assert "after generation 2" in fault


def test_the_content_of_an_earlier_generation_is_right_after_a_rollback_to_it() -> None:
    assert find_wrong_answers([seen(SWAPS[1], 15, 16), seen(SWAPS[2], 25, 26)], SWAPS) == []


def test_an_answer_that_mixes_generations_is_a_fault() -> None:
    mixed: Answer = ((2, 30),)
    (fault,) = find_wrong_answers([ObservedAnswer(ReaderQuery.TOTALS, 15, 16, mixed)], SWAPS)
    assert "which no generation does" in fault


def test_a_query_that_failed_is_a_fault() -> None:
    (fault,) = find_wrong_answers([ObservedAnswer(ReaderQuery.TOTALS, 15, 16, (), "NotFound: 404")], SWAPS)
    assert "NotFound" in fault
