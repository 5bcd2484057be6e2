"""Dates as people write them, and back."""

from __future__ import annotations

from datetime import date

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.publish.date_ranges import format_dates, parse_dates


def test_ranges_and_single_dates_give_each_date_once_ascending() -> None:
    found = parse_dates(["2026-02-27..2026-03-01", "2026-01-05", " 2026-02-28 "])
    assert found == (date(2026, 1, 5), date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1))


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "2026-01-01..", "..2026-01-01", "2026-01-01..soon", ""])
def test_a_text_that_names_no_date_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write \[YYYY-MM-DD\], or a range \[YYYY-MM-DD\.\.YYYY-MM-DD\]"):
        parse_dates([text])


@pytest.mark.parametrize("text", ["2026-01-02..2026-01-01", "0001-01-01..9999-12-31"])
def test_a_range_that_runs_backwards_or_without_end_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no range of dates"):
        parse_dates([text])


def test_neighbouring_dates_are_said_as_a_range() -> None:
    days = [date(2026, 1, 31), date(2026, 2, 1), date(2026, 2, 3), date(2026, 1, 30)]
    assert format_dates(days) == "2026-01-30..2026-02-01, 2026-02-03"
    assert format_dates([]) == "none"


def test_a_message_names_so_many_ranges_and_counts_the_others() -> None:
    days = [date(2026, month, day) for month in range(1, 5) for day in (1, 10, 20)]
    assert format_dates(days).endswith(" and 2 more ranges")
