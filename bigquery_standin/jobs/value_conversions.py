"""Converts values in JSON and CSV files, streamed rows and query parameters to Python values, by BigQuery type.

A conversion raises ValueError, TypeError or ArithmeticError if the value does not have the type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from datetime import time as day_time
from decimal import Decimal
from typing import Any

from bigquery_standin.clock import MICROSECONDS, to_datetime


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, Decimal) and value != int(value)):
        raise ValueError(value)
    return int(_number(value))


def _number(value: Any) -> Any:
    """The value. Raises ValueError for true, false and 1_000, which Python reads as numbers and BigQuery does not."""
    if "_" in str(value) or isinstance(value, bool):
        raise ValueError(value)
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word == "true"


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise ValueError(value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _timestamp(value: Any) -> datetime:
    """The value of ISO text, which is in UTC if it has no time zone, or of a number of seconds since 1970."""
    if isinstance(value, int | Decimal):
        return to_datetime(int(Decimal(_number(value)) * MICROSECONDS))
    parsed = datetime.fromisoformat(str(value).removesuffix(" UTC"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _datetime(value: Any) -> datetime:
    parsed = datetime.fromisoformat(value)
    if parsed.tzinfo is not None:
        raise ValueError(value)
    return parsed


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "INT64": _integer,
    "FLOAT64": lambda value: float(_number(value)),
    "BOOL": _boolean,
    "STRING": _text,
    "BYTES": lambda value: base64.b64decode(value, validate=True),
    "DATE": date.fromisoformat,
    "DATETIME": _datetime,
    "TIME": day_time.fromisoformat,
    "TIMESTAMP": _timestamp,
    "NUMERIC": lambda value: Decimal(str(_number(value))),
}
