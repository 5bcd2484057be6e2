"""Reads OPTIONS(…) of tables and procedures. For tables it also knows which setting an option is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import AwareDatetime, TypeAdapter, ValidationError
from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.clock import DAY_MS, from_datetime, to_datetime
from bigquery_standin.sql.transpile import check

_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_PRINTED_STALENESS = re.compile(r"0-0 0 (\d+):(\d+):(\d+)")

Evaluate = Callable[[exp.Expression], Any]
# What values of the SQL types are in Python.
_PAIRS = "ARRAY<STRUCT<STRING, STRING>>"
_PYTHON_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "STRING": TypeAdapter(str),
    "BOOL": TypeAdapter(bool),
    "FLOAT64": TypeAdapter(float),
    "TIMESTAMP": TypeAdapter(AwareDatetime),
    "ARRAY<STRING>": TypeAdapter(list[str]),
    _PAIRS: TypeAdapter(list[tuple[str, str]]),
    "INTERVAL": TypeAdapter(timedelta),
}


def _same(value: Any) -> Any:
    return value


def _sql_string(text: str) -> str:
    """A string literal as BigQuery prints it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


@dataclass(frozen=True)
class Option:
    """One option. `kind`: its SQL type. `setting`: the name of its value: for a table, of a field of TableSettings.

    `read`: the setting from the option's value. `printed`: the option's value in TABLE_OPTIONS from the setting.
    `unset`: the setting after NULL.
    """

    kind: str
    setting: str
    read: Callable[[Any], Any] = _same
    printed: Callable[[Any], str] = _sql_string
    unset: Any = None


def _milliseconds(days: float) -> int:
    if not days > 0:
        raise InvalidQuery(f"Expiration is [{days}] days, expected a number above [0]: use NULL to remove it")
    return round(days * DAY_MS)


def _labels(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    if len(dict(pairs)) != len(pairs):
        raise InvalidQuery(f"Labels have a key twice: [{', '.join(key for key, _ in pairs)}]")
    return dict(pairs)


def _printed_labels(labels: Mapping[str, str]) -> str:
    return f"[{', '.join(f'STRUCT({_sql_string(key)}, {_sql_string(labels[key])})' for key in sorted(labels))}]"


def staleness_seconds(text: str) -> int:
    """The seconds of `max_staleness` as requests state it, in hours, minutes and seconds. Raises Invalid for others."""
    found = _PRINTED_STALENESS.fullmatch(text)
    if found is None:
        raise Invalid(f"maxStaleness is [{text}], expected an interval of at most hours, such as [0-0 0 0:10:0].")
    hours, minutes, seconds = map(int, found.groups())
    return hours * 3600 + minutes * 60 + seconds


def staleness_text(seconds: int) -> str:
    """The interval as BigQuery prints it."""
    return f"0-0 0 {seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"


TABLE_OPTIONS = {
    "description": Option("STRING", "description"),
    "expiration_timestamp": Option(
        "TIMESTAMP", "expires_us", from_datetime, lambda us: f'TIMESTAMP "{to_datetime(us):%Y-%m-%dT%H:%M:%S.%fZ}"'
    ),
    "friendly_name": Option("STRING", "friendly_name"),
    "kms_key_name": Option("STRING", "kms_key_name"),
    "labels": Option(_PAIRS, "labels", _labels, _printed_labels, unset={}),
    "max_staleness": Option("INTERVAL", "max_staleness_s", lambda time: int(time.total_seconds()), staleness_text),
    "partition_expiration_days": Option(
        "FLOAT64", "partition_expiration_ms", _milliseconds, lambda ms: str(ms / DAY_MS)
    ),
    "require_partition_filter": Option("BOOL", "require_partition_filter", printed=lambda _: "true", unset=False),
}
_OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "table": TABLE_OPTIONS,
    "procedure": {
        "engine": Option("STRING", "engine"),
        "runtime_version": Option("STRING", "runtime_version"),
        "main_file_uri": Option("STRING", "main_file_uri"),
        "py_file_uris": Option("ARRAY<STRING>", "py_file_uris", tuple),
        "properties": Option(_PAIRS, "properties"),
    },
}


def check_options(options: Sequence[exp.Expr], kind: str) -> None:
    """Checks the properties of OPTIONS(…). `kind` is table or procedure.

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
    """The settings that the options change, by name. `evaluate` returns the Python value of an expression.

    Raises InvalidQuery for a wrong value, NotImplementedConstruct for an unsupported form of INTERVAL.
    """
    settings: dict[str, Any] = {}
    for item in options:
        name, expression = item.name.lower(), item.args["value"]
        option = _OPTIONS[kind][name]
        value = _interval(name, expression) if isinstance(expression, exp.Interval) else evaluate(expression)
        if option.kind == _PAIRS and isinstance(value, list):
            value = [tuple(pair.values()) if isinstance(pair, Mapping) else pair for pair in value]
        try:
            checked = None if value is None else _PYTHON_TYPES[option.kind].validate_python(value, strict=True)
        except ValidationError as error:
            raise InvalidQuery(
                f"Option {name} has value [{value!r}], expected type [{option.kind}]: correct the OPTIONS list"
            ) from error
        settings[option.setting] = option.unset if checked is None else option.read(checked)
    return settings


def _interval(name: str, interval: exp.Interval) -> timedelta:
    unit, amount = interval.args.get("unit"), interval.this
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var) or unit.name.upper() not in _SECONDS:
        raise NotImplementedConstruct(f"{name} = {interval.sql('bigquery')}: write it in seconds, minutes or hours")
    if not amount.name.isdigit():
        raise InvalidQuery(f"Option {name} is [{amount.name} {unit.name}], expected [whole numbers of 0 or more]")
    return timedelta(seconds=int(amount.name) * _SECONDS[unit.name.upper()])
