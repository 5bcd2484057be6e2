"""Every SQL text that the project renders: golden files of one feed, and Google's own grammar for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dedup_clone.orchestration.runners.procedure import ProcedureRunner
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.spark_settings import SparkSettings
from devstack.zetasql.service import ZetaSql, running_zetasql
from tests.golden_files import assert_golden, assert_no_other_golden
from tests.sql.rendering import BY_MONTH, DELETES, FIRST_PUBLISH, KEEPS_PREVIOUS, OTHER_FORMS, SQL, rendered_statements

STATEMENTS = rendered_statements()
# The last feed, store_visits, has nested columns and a check in SQL. Those of other feeds come from the same files.
OF_ONE_FEED = [name for name in sorted(STATEMENTS) if name.split("/")[0] == max(STATEMENTS).split("/")[0]]


@pytest.mark.parametrize("name", OF_ONE_FEED)
def test_rendered(name: str) -> None:
    assert_golden(f"sql/{name}", STATEMENTS[name])


def test_every_sql_file_is_rendered() -> None:
    files = {path.relative_to(SQL).as_posix() for path in SQL.rglob("*.sql")}
    variants = {FIRST_PUBLISH, BY_MONTH, DELETES, KEEPS_PREVIOUS, *OTHER_FORMS}
    parts = [name.split("/")[1:] for name in STATEMENTS]
    rendered = {"/".join(part[1:] if part[0] in variants else part) for part in parts}
    assert {name for name in rendered if not name.startswith("sql_checks/")} == files


def test_no_golden_file_is_orphaned() -> None:
    assert_no_other_golden("sql", OF_ONE_FEED)


@pytest.fixture(scope="module")
def grammar() -> Iterator[ZetaSql]:
    with running_zetasql() as started:
        yield started


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_googles_grammar_accepts(grammar: ZetaSql, name: str) -> None:
    assert grammar.check(STATEMENTS[name]) is None


def test_googles_grammar_refuses_a_misspelt_statement(grammar: ZetaSql) -> None:
    assert grammar.check("CREATE OR REPLACE TABLE a CLON b") is not None


HOSTILE = "a\"b'c\\d\ne\tf`g\u00e9\U0001f600); DROP TABLE x; --"


def script(properties: dict[str, str]) -> str:
    spark = SparkSettings(procedure_connection="my-project.eu.spark")
    profile = Deployment.model_construct(project="my-project", location="EU", dataset="warehouse", spark=spark)
    runs = ProcedureRunner(lambda: None, profile, "feed", SQL)  # type: ignore[arg-type, return-value]
    return runs.script(SparkJobSpec("r", "gs://code/main.py", "gs://code/a.zip", properties, {}, 60))


@pytest.mark.parametrize("properties", [{}, {"spark.a": "1"}, {"spark.a": "1", "spark.b": HOSTILE}])
def test_googles_grammar_accepts_the_script(grammar: ZetaSql, properties: dict[str, str]) -> None:
    assert grammar.check(script(properties)) is None


def test_values_are_literals_that_cannot_be_left() -> None:
    text = script({"spark.b": HOSTILE})
    assert '("spark.b", "a\\"b\'c\\\\d\\ne\\tf`g\u00e9\U0001f600); DROP TABLE x; --")' in text
    assert text.count("CALL `my-project.warehouse.dedup_clone_feed`(@request)") == 1
