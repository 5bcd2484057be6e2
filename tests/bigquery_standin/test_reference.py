"""The reference of the stand-in names all that the code carries out."""

from __future__ import annotations

from typing import get_args

from bigquery_standin.jobs.statement_runner import EXECUTORS
from bigquery_standin.reference import STATEMENTS, render
from bigquery_standin.sql.statements import Call, Declare, If, Statement


def test_the_reference_names_formats_and_limits() -> None:
    text = render()
    assert "Formats `PARQUET`, `NEWLINE_DELIMITED_JSON`" in text
    assert "at most 10,000 URIs" in text


def test_every_statement_is_in_the_reference_and_carried_out() -> None:
    assert set(STATEMENTS) == set(get_args(Statement)) == {*EXECUTORS, Call, Declare, If}
