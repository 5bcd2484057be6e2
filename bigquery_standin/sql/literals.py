"""Writes values as DuckDB SQL, and SQL that fails at run time where BigQuery fails; translates DuckDB's errors."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct, StandInError
from bigquery_standin.sql.field_types import QueryValue, to_duckdb_type

_FAILED = "stand-in:failed:"
_REFUSED = "stand-in:refused:"
# The macros own_fail and own_refuse cast text with one of these marks to BIGINT. DuckDB's error then says:
# Could not convert string 'stand-in:failed:…' to INT64.
_MARKED = re.compile(rf"(?P<kind>{_FAILED}|{_REFUSED})(?P<text>.*?)' to INT64", re.DOTALL)

_SEVERAL_MATCHES = "MERGE INTO command cannot affect the same target row more than once"  # from DuckDB


def string_literal(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def unsupported_when(condition: str, construct: str, otherwise: str) -> str:
    """The SQL `otherwise`, changed so that it fails with NotImplementedConstruct if the SQL `condition` is true.

    It is for constructs that are supported for some types only, where the types are known only at run time.
    """
    return f"CASE WHEN {condition} THEN own_refuse({string_literal(construct)}) ELSE {otherwise} END"


def translate_duckdb_error(error: Exception) -> StandInError:
    """BigQuery's error for an error that DuckDB raised while it bound or ran SQL of `transpile.to_duckdb`."""
    text = str(error)
    marked = _MARKED.search(text)
    if marked is not None and marked["kind"] == _REFUSED:
        return NotImplementedConstruct(marked["text"])
    if marked is not None:
        return InvalidQuery(marked["text"])
    if _SEVERAL_MATCHES in text:
        return InvalidQuery("UPDATE/MERGE must match at most one source row for each target row")
    return InvalidQuery(re.sub(r"^(?:\w+ )*Error: ", "", text.split("\n", 1)[0]))


_INT64_MAX = 2**63 - 1


def value_literal(value: QueryValue) -> str:
    """DuckDB SQL of the value, cast to its type."""
    return f"CAST({_untyped(value.value)} AS {to_duckdb_type(value.field)})"


def _untyped(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return f"[{', '.join(map(_untyped, value))}]"
        case bool() | int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else string_literal(str(value))
        case str():
            return string_literal(value)
        case bytes():
            return bytes_literal(value)
        case datetime():
            in_utc = value.astimezone(UTC) if value.tzinfo else value
            return string_literal(in_utc.isoformat(" "))
        case date():
            return string_literal(value.isoformat())
        case Decimal():
            return string_literal(str(value))
    raise TypeError(f"A query value is [{type(value).__name__}], expected [a Python value of a BigQuery type]")


def bytes_literal(value: bytes) -> str:
    return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"


def int64_literal(value: int) -> str:
    """Raises InvalidQuery for a number outside the range of INT64."""
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise InvalidQuery(f"Invalid integer literal: {value}")
    return f"CAST({value} AS BIGINT)"
