"""Parses OPTIONS(…) of tables, UNDROP SCHEMA and procedures, and checks the values of the supported options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.checked_parse import parse_checked
from bigquery_standin.sql.interval_values import interval_text
from bigquery_standin.sql.statements import Options
from bigquery_standin.sql.tokens import TokenCursor

MAX_LABELS = 64
_LABEL_KEY = re.compile(r"[a-z\u00df-\uffff][\w\-]{0,62}\Z")
_LABEL_VALUE = re.compile(r"[\w\-]{0,63}\Z")

Evaluate = Callable[[exp.Expression], Any]


def parse_options(cursor: TokenCursor, kind: str) -> Options:
    """Parses `OPTIONS (name = expression, …)`, which is optional. `kind` is table, schema or procedure."""
    if not cursor.accept("OPTIONS"):
        return ()
    supported = _OPTIONS[kind]
    cursor.expect("(")
    options: list[tuple[str, exp.Expression]] = []
    while not (cursor.at(")") and not options):
        name = cursor.identifier().lower()
        cursor.expect("=")
        tokens = cursor.take_until(",", ")")
        if name not in supported:
            raise NotImplementedConstruct(f"{kind} option {name}")
        if name in dict(options):
            raise InvalidQuery(f"Duplicate option specified for '{name}'")
        if not tokens:
            raise cursor.unexpected()
        options.append((name, parse_checked(cursor, tokens, may_be_interval=True)))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(options)


def evaluate_options(options: Options, evaluate: Evaluate) -> dict[str, Any]:
    """The values of a table's options by name, None for NULL. `evaluate` returns the Python value of an expression.

    Raises InvalidQuery for a wrong value, NotImplementedConstruct for an unsupported form of INTERVAL.
    """
    return _values(options, evaluate, TABLE_OPTIONS)


def evaluate_location(options: Options, evaluate: Evaluate) -> str | None:
    """The location in the options of UNDROP SCHEMA; None without one. Raises as `evaluate_options` does."""
    location: str | None = _values(options, evaluate, SCHEMA_OPTIONS).get("location")
    return location


def evaluate_procedure_options(options: Options, evaluate: Evaluate) -> dict[str, Any]:
    """The values of a procedure's options that are not NULL, by name.

    `evaluate` returns the Python value of an expression. Raises InvalidQuery for a wrong value.
    """
    return {name: value for name, value in _values(options, evaluate, PROCEDURE_OPTIONS).items() if value is not None}


def _values(options: Options, evaluate: Evaluate, checks: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """The values by option, None for NULL. `checks`: by option, the function that checks and converts its value."""
    values: dict[str, Any] = {}
    for name, expression in options:
        if name not in checks:
            raise NotImplementedConstruct(f"option {name}")
        value = expression if isinstance(expression, exp.Interval) else evaluate(expression)
        values[name] = None if value is None else checks[name](name, value)
    return values


def _wrong_type(name: str, expected: str, value: Any) -> InvalidQuery:
    return InvalidQuery(f"Option {name} has value [{value!r}], expected type [{expected}]: correct the OPTIONS list")


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, "STRING", value)
    return value


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(name, "BOOL", value)
    return value


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


def _interval(name: str, value: Any) -> str:
    if not isinstance(value, exp.Interval):
        raise _wrong_type(name, "INTERVAL", value)
    try:
        return interval_text(value)
    except Invalid as error:
        raise InvalidQuery(error.message) from error


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
    "max_staleness": _interval,
}
SCHEMA_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {"location": _string}
PROCEDURE_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "engine": _string,
    "runtime_version": _string,
    "main_file_uri": _string,
    "py_file_uris": _strings,
    "jar_uris": _strings,
    "file_uris": _strings,
    "archive_uris": _strings,
    "properties": _pairs,
    "description": _string,
}
_OPTIONS = {"table": TABLE_OPTIONS, "schema": SCHEMA_OPTIONS, "procedure": PROCEDURE_OPTIONS}
