"""Parses and formats dates and ranges of dates as people write them: `2026-02-03`, `2026-01-01..2026-01-31`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from dedup_clone.contract.errors import ConfigurationError

MAX_RANGE_DAYS = 10_000  # BigQuery's limit of partitions in a table
# A text for people names at most this many ranges or dates. Then it says how many more there are.
RANGES_NAMED = 10
DATES_NAMED = 5


def parse_dates(texts: Iterable[str]) -> tuple[date, ...]:
    """All dates of the texts, ascending and without repetition. Raises ConfigurationError for a malformed text."""
    found: set[date] = set()
    for text in texts:
        first, last = _parse_range(text)
        found.update(first + timedelta(days=offset) for offset in range((last - first).days + 1))
    return tuple(sorted(found))


def _parse_range(text: str) -> tuple[date, date]:
    first, dots, last = text.strip().partition("..")
    try:
        start = date.fromisoformat(first.strip())
        end = date.fromisoformat(last.strip()) if dots else start
    except ValueError as error:
        raise ConfigurationError(
            f"[{text}] names no date ({error}): write [YYYY-MM-DD], or a range [YYYY-MM-DD..YYYY-MM-DD]."
        ) from error
    if not start <= end or (end - start).days >= MAX_RANGE_DAYS:
        raise ConfigurationError(
            f"[{text}] is no range of dates: write the earlier one first, and at most [{MAX_RANGE_DAYS}] days."
        )
    return start, end


def date_ranges(dates: Iterable[date]) -> list[str]:
    """The dates as ascending ranges: `2026-01-01..2026-01-03`, `2026-01-05`."""
    ranges: list[list[date]] = []
    for day in sorted(dates):
        if ranges and day - ranges[-1][1] == timedelta(days=1):
            ranges[-1][1] = day
        else:
            ranges.append([day, day])
    return [str(first) if first == last else f"{first}..{last}" for first, last in ranges]


def format_dates(dates: Iterable[date]) -> str:
    """The first RANGES_NAMED ranges: `2026-01-01..2026-01-03, 2026-01-05 and 4 more ranges`; `none` without dates."""
    texts = date_ranges(dates)
    more = f" and {len(texts) - RANGES_NAMED} more ranges" if len(texts) > RANGES_NAMED else ""
    return (", ".join(texts[:RANGES_NAMED]) + more) or "none"
