"""DuckDB SQL that fails at run time where BigQuery fails, and the translation of DuckDB's errors to BigQuery's."""

from __future__ import annotations

import re

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct, StandInError

_FAILED = "stand-in:failed:"
_REFUSED = "stand-in:refused:"
_MARKED = re.compile(rf"(?P<kind>{_FAILED}|{_REFUSED})(?P<text>.*?)' to INT64", re.DOTALL)


def string_literal(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def error_sql(message: str) -> str:
    """SQL of any type that fails with InvalidQuery when it is evaluated. `message` is SQL of the text.

    It is not DuckDB's `error()`, which counts as a side effect: columns with it cannot be sorted or grouped by alias.
    """
    return f"([NULL])[CAST(concat('{_FAILED}', {message}) AS BIGINT)]"


def unsupported_sql(construct: str) -> str:
    """SQL of any type that fails with NotImplementedConstruct when it is evaluated.

    It is for constructs whose support depends on types that are known only at run time.
    """
    return f"([NULL])[CAST({string_literal(_REFUSED + construct)} AS BIGINT)]"


def unsupported_when(condition: str, construct: str, otherwise: str) -> str:
    return f"CASE WHEN {condition} THEN {unsupported_sql(construct)} ELSE {otherwise} END"


def translate_duckdb_error(error: Exception) -> StandInError:
    """BigQuery's error for one that DuckDB raised while it bound or ran SQL from `to_duckdb`."""
    text = str(error)
    marked = _MARKED.search(text)
    if marked is not None and marked["kind"] == _REFUSED:
        return NotImplementedConstruct(marked["text"])
    if marked is not None:
        return InvalidQuery(marked["text"])
    return InvalidQuery(re.sub(r"^(?:\w+ )*Error: ", "", text.split("\n", 1)[0]))
