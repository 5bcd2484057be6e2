"""Unsupported constructs are refused by name, and syntax errors with their position."""

from __future__ import annotations

import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.script_parser import parse_script
from devstack.zetasql.grammar import Grammar
from tests.unit.devstack.bigquery.sql.refusal_cases import CONSTRUCTS, SEMANTICS, SYNTAX


@pytest.mark.parametrize("text", CONSTRUCTS)
def test_construct_is_refused_by_name(text: str) -> None:
    with pytest.raises(NotImplementedConstruct) as refusal:
        parse_script(text)
    assert refusal.value.construct == CONSTRUCTS[text]
    assert (refusal.value.reason, refusal.value.http_status) == ("notImplemented", 501)


@pytest.mark.parametrize("text", [text for text in CONSTRUCTS if "|>" not in text])  # newer than this ZetaSQL
def test_refused_construct_is_googlesql(grammar: Grammar, text: str) -> None:
    assert grammar.check(text) is None


@pytest.mark.parametrize("text", SYNTAX | SEMANTICS)
def test_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        parse_script(text)
    assert (SYNTAX | SEMANTICS)[text] in refusal.value.message
    assert (refusal.value.reason, refusal.value.http_status) == ("invalidQuery", 400)


@pytest.mark.parametrize(
    "text", [text for text in SYNTAX if text and not text.startswith(("SELECT 1; D", "DECLARE x INT64"))]
)
def test_refused_syntax_is_not_googlesql(grammar: Grammar, text: str) -> None:
    assert grammar.check(text) is not None
