"""Writes DuckDB SQL that fails at run time where BigQuery fails, and translates DuckDB's errors to BigQuery's."""

from __future__ import annotations

import re

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct, StandInError

_FAILED = "stand-in:failed:"
_REFUSED = "stand-in:refused:"
# SQL that must fail casts text with one of these marks to BIGINT. DuckDB's error then says:
# Could not convert string 'stand-in:failed:…' to INT64.
_MARKED = re.compile(rf"(?P<kind>{_FAILED}|{_REFUSED})(?P<text>.*?)' to INT64", re.DOTALL)

_SEVERAL_MATCHES = "MERGE INTO command cannot affect the same target row more than once"  # from DuckDB


def string_literal(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def error_sql(message: str) -> str:
    """SQL that can stand for a value of any type, and fails with InvalidQuery if it is evaluated.

    `message`: SQL of the error's text. `translate_duckdb_error` makes the InvalidQuery from DuckDB's error.

    DuckDB's own `error()` is not used: it counts as a side effect, and DuckDB does not sort or group by a column that
    has one.
    """
    return _failing_sql(f"concat('{_FAILED}', {message})")


def unsupported_sql(construct: str) -> str:
    """SQL that can stand for a value of any type, and fails with NotImplementedConstruct if it is evaluated.

    It is for constructs that are supported for some types only, where the types are known only at run time.
    `construct`: the construct's name in the error.
    """
    return _failing_sql(string_literal(_REFUSED + construct))


def _failing_sql(text_sql: str) -> str:
    """SQL that can stand for a value of any type, and fails because the text that `text_sql` gives is no number.

    A COALESCE in DuckDB leaves out an argument that it knows to be always NULL. `list_resize` hides that this SQL is.
    """
    return f"(list_resize([NULL], CAST({text_sql} AS BIGINT)))[1]"


def unsupported_when(condition: str, construct: str, otherwise: str) -> str:
    """The SQL `otherwise`, changed so that it fails with NotImplementedConstruct if the SQL `condition` is true."""
    return f"CASE WHEN {condition} THEN {unsupported_sql(construct)} ELSE {otherwise} END"


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
