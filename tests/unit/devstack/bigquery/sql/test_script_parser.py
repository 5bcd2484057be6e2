"""SQL texts are parsed to the expected statements, and Google's grammar accepts each of them too."""

from __future__ import annotations

import pytest

from devstack.bigquery.sql.referenced_tables import referenced_tables
from devstack.bigquery.sql.script_parser import parse_script
from devstack.bigquery.sql.statements import Query, TableName
from devstack.zetasql.grammar import Grammar
from tests.unit.devstack.bigquery.sql.select_cases import SELECTS
from tests.unit.devstack.bigquery.sql.statement_cases import SCRIPTS, SINGLE, tree

ACCEPTED = (
    *(text for text, _ in SINGLE.values()),
    *(text for text, _ in SCRIPTS.values()),
    *(text for cases in SELECTS.values() for text, _ in cases),
)


@pytest.mark.parametrize("case", SINGLE)
def test_statement_is_parsed(case: str) -> None:
    text, expected = SINGLE[case]
    script = parse_script(text)
    assert script.statements == (expected,)
    assert not script.is_script


@pytest.mark.parametrize("case", SCRIPTS)
def test_script_is_parsed(case: str) -> None:
    text, expected = SCRIPTS[case]
    script = parse_script(text)
    assert script.statements == expected
    assert script.is_script


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted_text_is_googlesql(grammar: Grammar, text: str) -> None:
    assert grammar.check(text) is None


def test_positional_parameters_are_numbered_through_the_script() -> None:
    first, second = parse_script("SELECT ?, ?; SELECT ?").statements
    assert isinstance(first, Query)
    assert isinstance(second, Query)
    assert [item.name for item in first.tree.expressions] == ["1", "2"]
    assert [item.name for item in second.tree.expressions] == ["3"]


def test_referenced_tables_leave_out_with_names_and_keep_times() -> None:
    query = tree(
        "WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a JOIN p.d.t FOR SYSTEM_TIME AS OF @at ON TRUE) "
        "SELECT * FROM b, d.INFORMATION_SCHEMA.PARTITIONS, `local-dev.d.u` WHERE EXISTS (SELECT * FROM d.a)"
    )
    assert sorted(referenced_tables(query), key=str) == sorted(
        [
            (TableName("a"), None),
            (TableName("t", "d", "p"), tree("@at")),
            (TableName("INFORMATION_SCHEMA.PARTITIONS", "d"), None),
            (TableName("u", "d", "local-dev"), None),
            (TableName("a", "d"), None),
        ],
        key=str,
    )
