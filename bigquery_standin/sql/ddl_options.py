"""Reads OPTIONS(…) of tables, UNDROP SCHEMA and procedures, and checks the values of the supported options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.transpile import check

MAX_LABELS = 64
_LABEL_KEY = re.compile(r"[a-z\u00df-\uffff][\w\-]{0,62}\Z")
_LABEL_VALUE = re.compile(r"[\w\-]{0,63}\Z")
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_PRINTED_STALENESS = re.compile(r"0-0 0 (\d+):(\d+):(\d+)")

Evaluate = Callable[[exp.Expression], Any]


def check_options(options: Sequence[exp.Expr], kind: str) -> None:
    """Checks the properties of OPTIONS(…). `kind` is table, schema or procedure.

    Raises InvalidQuery for an option that is given twice, NotImplementedConstruct for an unsupported one.
    """
    names: set[str] = set()
    for item in options:
        name, value = item.name.lower(), item.args.get("value")
        if value is None or type(item) is not exp.Property or name not in _OPTIONS[kind]:
            raise NotImplementedConstruct(f"{kind} option {name or item.sql('bigquery')}")
        if name in names:
            raise InvalidQuery(f"Duplicate option specified for '{name}'")
        if not isinstance(value, exp.Interval):
            check(value)
        names.add(name)


def evaluate_options(options: Sequence[exp.Expr], kind: str, evaluate: Evaluate) -> dict[str, Any]:
    """The values by name, None for NULL. `evaluate` returns the Python value of an expression.

    Raises InvalidQuery for a wrong value, NotImplementedConstruct for an unsupported form of INTERVAL.
    """
    values: dict[str, Any] = {}
    for item in options:
        name, expression = item.name.lower(), item.args["value"]
        value = expression if isinstance(expression, exp.Interval) else evaluate(expression)
        values[name] = None if value is None else _OPTIONS[kind][name](name, value)
    return values


def _wrong_type(name: str, expected: str, value: Any) -> InvalidQuery:
    return InvalidQuery(f"Option {name} has value [{value!r}], expected type [{expected}]: correct the OPTIONS list")


def _of(kind: type, type_name: str) -> Callable[[str, Any], Any]:
    """The check of an option's type."""

    def checked(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise _wrong_type(name, type_name, value)
        return value

    return checked


_string, _boolean = _of(str, "STRING"), _of(bool, "BOOL")


def _positive_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(name, "FLOAT64", value)
    if not value > 0:
        raise InvalidQuery(
            f"Option {name} is [{value}], expected a number above [0]: use NULL to remove the expiration"
        )
    return float(value)


def _timestamp(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise _wrong_type(name, "TIMESTAMP", value)
    return value


def _max_staleness(name: str, value: Any) -> int:
    """In seconds."""
    if not isinstance(value, exp.Interval):
        raise _wrong_type(name, "INTERVAL", value)
    unit, amount = value.args.get("unit"), value.this
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var) or unit.name.upper() not in _SECONDS:
        raise NotImplementedConstruct(f"{name} = {value.sql('bigquery')}: write it in seconds, minutes or hours")
    if not amount.name.isdigit():
        raise InvalidQuery(f"Option {name} is [{amount.name} {unit.name}], expected [whole numbers of 0 or more]")
    return int(amount.name) * _SECONDS[unit.name.upper()]


def staleness_seconds(text: str) -> int:
    """The seconds of `max_staleness` as requests state it, in hours, minutes and seconds. Raises Invalid for others."""
    found = _PRINTED_STALENESS.fullmatch(text)
    if found is None:
        raise Invalid(f"maxStaleness is [{text}], expected an interval of at most hours, such as [0-0 0 0:10:0].")
    hours, minutes, seconds = map(int, found.groups())
    return hours * 3600 + minutes * 60 + seconds


def staleness_text(seconds: int | None) -> str | None:
    """The interval as BigQuery prints it; None for None."""
    if seconds is None:
        return None
    return f"0-0 0 {seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong_type(name, "ARRAY<STRING>", value)
    return tuple(value)


def _pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    expected = "ARRAY<STRUCT<STRING, STRING>>"
    if not isinstance(value, list | tuple):
        raise _wrong_type(name, expected, value)
    pairs = [tuple(item.values()) if isinstance(item, Mapping) else item for item in value]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise _wrong_type(name, expected, value)
    return tuple((str(key), str(text)) for key, text in pairs)


def _labels(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    labels = _pairs(name, value)
    for key, text in labels:
        if not _LABEL_KEY.match(key) or key != key.lower():
            raise InvalidQuery(
                f"Label key [{key}] is not valid, expected [a lower-case letter, then up to 62 lower-case letters, "
                "digits, _ and -]"
            )
        if not _LABEL_VALUE.match(text) or text != text.lower():
            raise InvalidQuery(
                f"Label value [{text}] is not valid, expected [up to 63 lower-case letters, digits, _ and -]"
            )
    if len(dict(labels)) != len(labels):
        raise InvalidQuery(f"Labels have a key twice: [{', '.join(key for key, _ in labels)}]")
    if len(labels) > MAX_LABELS:
        raise InvalidQuery(f"[{len(labels)}] labels given, expected at most [{MAX_LABELS}]")
    return labels


TABLE_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "partition_expiration_days": _positive_number,
    "require_partition_filter": _boolean,
    "expiration_timestamp": _timestamp,
    "kms_key_name": _string,
    "friendly_name": _string,
    "description": _string,
    "labels": _labels,
    "max_staleness": _max_staleness,
}
SCHEMA_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {"location": _string}
PROCEDURE_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "engine": _string,
    "runtime_version": _string,
    "main_file_uri": _string,
    "py_file_uris": _strings,
    "properties": _pairs,
}
_OPTIONS = {"table": TABLE_OPTIONS, "schema": SCHEMA_OPTIONS, "procedure": PROCEDURE_OPTIONS}
