"""Failures that belong to a query's meaning, as DuckDB SQL, and DuckDB's errors back as BigQuery's answers."""

from __future__ import annotations

import re

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct, StandInError

_FAILED = "stand-in:failed:"
_REFUSED = "stand-in:refused:"
_MARKED = re.compile(rf"(?P<kind>{_FAILED}|{_REFUSED})(?P<text>.*?)' to INT64", re.DOTALL)


def text_literal(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def failure(message: str) -> str:
    """SQL of any type that fails when it is evaluated; `message` is SQL of the text.

    Not DuckDB's `error()`: it counts as a side effect, so that a column made with it can be neither sorted nor
    grouped by its alias.
    """
    return f"([NULL])[CAST(concat('{_FAILED}', {message}) AS BIGINT)]"


def refusal(construct: str) -> str:
    """SQL of any type that is refused when it is evaluated, for what only the types of the columns can tell."""
    return f"([NULL])[CAST({text_literal(_REFUSED + construct)} AS BIGINT)]"


def refused_when(condition: str, construct: str, otherwise: str) -> str:
    return f"CASE WHEN {condition} THEN {refusal(construct)} ELSE {otherwise} END"


def error_of_duckdb(error: Exception) -> StandInError:
    """The answer for what DuckDB raised while it bound or ran SQL that `to_duckdb` wrote."""
    text = str(error)
    marked = _MARKED.search(text)
    if marked is not None and marked["kind"] == _REFUSED:
        return NotImplementedConstruct(marked["text"])
    if marked is not None:
        return InvalidQuery(marked["text"])
    return InvalidQuery(re.sub(r"^(?:\w+ )*Error: ", "", text.split("\n", 1)[0]))
