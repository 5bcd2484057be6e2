"""Reads and writes INTERVALs as BigQuery prints them, `Y-M D H:M:S`: tables store their `max_staleness` like this."""

from __future__ import annotations

import re

from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct

_PRINTED = re.compile(r"(\d+)-(\d+) (\d+) (\d+):(\d+):(\d+)")
_DAYS_PER_MONTH = 30  # as JUSTIFY_DAYS counts them
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def canonical_interval(text: str) -> str:
    """The interval `Y-M D H:M:S` in `text`, without leading zeros, with months below 12, minutes and seconds below 60.

    Raises Invalid for text of another form, such as one with a sign or a fraction of a second.
    """
    found = _PRINTED.fullmatch(text.strip())
    if found is None:
        raise Invalid(
            f"max_staleness is [{text}], expected an interval of whole seconds that is not negative, written as "
            "[Y-M D H:M:S], such as [0-0 0 0:10:0]."
        )
    years, months, days, hours, minutes, seconds = (int(part) for part in found.groups())
    return _printed(years * 12 + months, days, hours * 3600 + minutes * 60 + seconds)


def interval_microseconds(text: str) -> int:
    """The length of a canonical interval in microseconds; a month has 30 days."""
    found = _PRINTED.fullmatch(text)
    assert found is not None  # it is canonical
    years, months, days, hours, minutes, seconds = (int(part) for part in found.groups())
    all_days = (years * 12 + months) * _DAYS_PER_MONTH + days
    return (all_days * 86_400 + hours * 3600 + minutes * 60 + seconds) * 1_000_000


def interval_text(expression: exp.Interval) -> str:
    """The canonical text of an INTERVAL, as `canonical_interval` returns it.

    Raises Invalid as `canonical_interval` does, NotImplementedConstruct for anything but a literal with one unit.
    """
    unit, amount = expression.args.get("unit"), expression.this
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        raise NotImplementedConstruct(f"INTERVAL of {expression.sql('bigquery')} (only a constant of one unit)")
    name = unit.name.upper()
    if not amount.name.isdigit() or name not in {**_SECONDS, **_DAYS, **_MONTHS}:
        return canonical_interval(f"{amount.name} {name}")  # raises Invalid
    number = int(amount.name)
    return _printed(number * _MONTHS.get(name, 0), number * _DAYS.get(name, 0), number * _SECONDS.get(name, 0))


def _printed(months: int, days: int, seconds: int) -> str:
    minutes = seconds // 60
    return f"{months // 12}-{months % 12} {days} {minutes // 60}:{minutes % 60}:{seconds % 60}"
