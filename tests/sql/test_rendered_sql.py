"""Every SQL text that the project renders: golden files, and Google's own grammar."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden_files import assert_golden, assert_no_other_golden
from tests.sql.rendering import FIRST_PUBLISH, OTHER_FORMS, SQL, rendered_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devstack.zetasql.grammar import Grammar

STATEMENTS = rendered_statements()
# The last feed, store_visits, has nested columns and a check in SQL. Those of other feeds come from the same files.
OF_ONE_FEED = [name for name in sorted(STATEMENTS) if name.split("/")[0] == max(STATEMENTS).split("/")[0]]


@pytest.mark.parametrize("name", OF_ONE_FEED)
def test_rendered(name: str) -> None:
    assert_golden(f"sql/{name}", STATEMENTS[name])


def test_every_sql_file_is_rendered() -> None:
    files = {path.relative_to(SQL).as_posix() for path in SQL.rglob("*.sql")}
    variants = {FIRST_PUBLISH, *OTHER_FORMS}
    parts = [name.split("/")[1:] for name in STATEMENTS]
    rendered = {"/".join(part[1:] if part[0] in variants else part) for part in parts}
    assert {name for name in rendered if not name.startswith("sql_checks/")} == files


def test_no_golden_file_is_orphaned() -> None:
    assert_no_other_golden("sql", OF_ONE_FEED)


@pytest.fixture(scope="module")
def grammar() -> Iterator[Grammar]:
    from devstack.zetasql.grammar import running_grammar
    from devstack.zetasql.install import ZetaSqlUnavailable

    with ExitStack() as stack:
        try:
            started = stack.enter_context(running_grammar())
        except ZetaSqlUnavailable as error:
            pytest.skip(f"Google's SQL grammar: {error}")
        yield started


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_googles_grammar_accepts(grammar: Any, name: str) -> None:
    assert grammar.check(STATEMENTS[name]) is None


def test_googles_grammar_refuses_a_misspelt_statement(grammar: Any) -> None:
    assert grammar.check("CREATE OR REPLACE TABLE a CLON b") is not None
