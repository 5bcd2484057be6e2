"""Tasks that start when nothing else waits may use the cores that would be idle."""

from __future__ import annotations

import pytest

from dedup_spark.execution.fan_out import thread_counts


@pytest.mark.parametrize(
    ("loads", "cores", "expected"),
    [
        ([2, 2, 2, 2, 2, 1, 1, 1], 2, [1, 1, 1, 1, 1, 1, 1, 2]),  # thirteen dates: the last would be alone
        ([1] * 6, 2, [1] * 6),
        ([1] * 9, 4, [1, 1, 1, 1, 1, 1, 1, 1, 4]),
        ([1] * 10, 4, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2]),
        ([5], 4, [4]),
        ([9, 1, 1, 1], 2, [1, 1, 1, 1]),  # beside a long one nothing is spare
        ([1, 1], 1, [1, 1]),
        ([], 2, []),
    ],
)
def test_only_the_tasks_of_a_last_round_that_is_not_full_get_more_than_one_core(
    loads: list[int], cores: int, expected: list[int]
) -> None:
    assert thread_counts(loads, cores) == expected
