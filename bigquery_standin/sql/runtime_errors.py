"""Writes DuckDB SQL that fails at run time where BigQuery fails, and translates DuckDB's errors to BigQuery's."""

from __future__ import annotations

import re

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct, StandInError

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
