"""The reference in docs/stand-in.md matches the code."""

from __future__ import annotations

from typing import get_args

from devstack.bigquery.reference import DOCUMENT, STATEMENTS, generated_part, render
from devstack.bigquery.rest.application import HANDLERS
from devstack.bigquery.rest.supported_methods import METHODS
from devstack.bigquery.sql.statements import Statement


def test_document_is_up_to_date() -> None:
    assert generated_part(DOCUMENT.read_text()) == render(), "run: python -m devstack.bigquery.reference"


def test_every_statement_and_every_method_is_in_the_reference() -> None:
    assert set(STATEMENTS) == set(get_args(Statement))
    assert {method.id for method in METHODS} == set(HANDLERS)
