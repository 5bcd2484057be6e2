"""The script that makes and calls the Spark procedure: Google's grammar takes it, and no value breaks out of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dedup_clone.orchestration.runners.procedure import ProcedureRunner
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.spark_settings import SparkSettings
from tests.sql.rendering import SQL

if TYPE_CHECKING:
    from devstack.zetasql.grammar import Grammar

HOSTILE = "a\"b'c\\d\ne\tf`g\u00e9\U0001f600); DROP TABLE x; --"


@pytest.fixture(scope="module")
def grammar() -> Iterator[Grammar]:
    from devstack.zetasql.grammar import running_grammar
    from devstack.zetasql.install import ZetaSqlUnavailable

    try:
        running = running_grammar()
        started = running.__enter__()
    except ZetaSqlUnavailable as error:
        pytest.skip(f"Google's SQL grammar: {error}")
    yield started
    running.__exit__(None, None, None)


def script(properties: dict[str, str]) -> str:
    runs = ProcedureRunner(
        lambda: None,  # type: ignore[arg-type, return-value]
        project="my-project",
        location="EU",
        procedure="my-project.warehouse.dedup_clone_feed",
        settings=SparkSettings(procedure_connection="my-project.eu.spark"),
        sql_folder=SQL,
    )
    return runs.script(SparkJobSpec("r", "gs://code/main.py", "gs://code/a.zip", properties, {}, 2, 4, 60))


@pytest.mark.parametrize("properties", [{}, {"spark.a": "1"}, {"spark.a": "1", "spark.b": HOSTILE}])
def test_googles_grammar_accepts_the_script(grammar: Any, properties: dict[str, str]) -> None:
    assert grammar.check(script(properties)) is None


def test_values_are_literals_that_cannot_be_left() -> None:
    text = script({"spark.b": HOSTILE})
    assert '("spark.b", "a\\"b\'c\\\\d\\ne\\tf`g\u00e9\U0001f600); DROP TABLE x; --")' in text
    assert text.count("CALL `my-project.warehouse.dedup_clone_feed`(@request)") == 1
