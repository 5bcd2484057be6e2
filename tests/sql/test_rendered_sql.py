"""Every SQL text that the project renders: golden files of one feed, and Google's own grammar for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.table import Absent, Column, PartitionBy, TableContract
from dedup_clone.orchestration.runners.procedure import ProcedureRunner
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import SparkSettings
from dedup_clone.warehouse.sql_files import TableNames, render, render_query
from testkit.table_contracts import PRODUCTS, by_time
from testkit.zetasql import ZetaSql
from tests.golden_files import assert_golden, assert_no_other_golden

REPOSITORY = Path(__file__).parents[2]
SQL = REPOSITORY / "sql"


def differing_feeds() -> list[Feed]:
    """The feeds in dags/feeds, of those with the same table and SQL checks only the first."""
    feeds: list[Feed] = []
    for path in sorted((REPOSITORY / "dags" / "feeds").glob("*.yaml")):
        feed = read_feed(path)
        if not any((feed.table, feed.checks.sql) == (other.table, other.checks.sql) for other in feeds):
            feeds.append(feed)
    return feeds


def variants(table: TableContract) -> dict[str, dict[str, Any]]:
    """The values that change a statement, by the folder of the statements that differ."""
    return {
        "first_publish": {"has_parent": False},
        "keeps_previous": {"previous_days": 7},
        "by_month": {"table": replace(table, partition_by=PartitionBy.MONTH)},
        "by_time": {"table": by_time(table, "TIMESTAMP")},
        "deletes": {"table": replace(table, absent_keys=Absent.DELETE)},
        **{str(form): {"form": form} for form in SqlForm if form is not SqlForm.QUALIFY},
    }


def rendered_statements() -> dict[str, str]:
    """`<feed>/<folder>/<file>.sql` -> text; `<feed>/<variant>/<folder>/<file>.sql` where a variant differs."""
    statements = {}
    for feed in differing_feeds():
        names = TableNames("local-dev", "warehouse", feed.staging, feed.target, "00000012-ab12cd")
        table = feed.table.to_contract()
        column = table.value_columns[0]
        sources = [(c, Column(f"former_{c.name}", "BYTES") if c == column else c) for c in table.columns]
        values: dict[str, Any] = {
            "names": names,
            "table": table,
            "options": feed.table.options,
            "column": column,
            "sources": [*sources, (Column("note", "STRING"), None)],
            "form": SqlForm.QUALIFY,
            "has_parent": True,
            "previous_days": 0,
            "expected": "",
            "named": table,
        }
        for file in sorted(SQL.rglob("*.sql")):
            name = file.relative_to(SQL).as_posix()
            statements[f"{feed.feed}/{name}"] = usual = render(SQL, name, **values)
            for variant, changes in variants(table).items():
                text = render(SQL, name, **{**values, **changes})
                if text != usual:
                    statements[f"{feed.feed}/{variant}/{name}"] = text
        for check in feed.checks.sql:
            statements[f"{feed.feed}/sql_checks/{check.name}.sql"] = render_query(
                feed.query_of(check), name=check.name, names=names
            )
    return statements


STATEMENTS = rendered_statements()
# The last feed, store_visits, has nested columns and a check in SQL. Those of other feeds come from the same files.
OF_ONE_FEED = [name for name in sorted(STATEMENTS) if name.split("/")[0] == max(STATEMENTS).split("/")[0]]


@pytest.mark.parametrize("name", OF_ONE_FEED)
def test_rendered(name: str) -> None:
    assert_golden(f"sql/{name}", STATEMENTS[name])


def test_every_sql_file_is_rendered() -> None:
    files = {path.relative_to(SQL).as_posix() for path in SQL.rglob("*.sql")}
    parts = [name.split("/")[1:] for name in STATEMENTS]
    rendered = {"/".join(part[1:] if part[0] in variants(PRODUCTS) else part) for part in parts}
    assert {name for name in rendered if not name.startswith("sql_checks/")} == files


def test_no_golden_file_is_orphaned() -> None:
    assert_no_other_golden("sql", OF_ONE_FEED)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_googles_grammar_accepts(zetasql: ZetaSql, name: str) -> None:
    assert zetasql.check(STATEMENTS[name]) is None


def test_googles_grammar_refuses_a_misspelt_statement(zetasql: ZetaSql) -> None:
    assert zetasql.check("CREATE OR REPLACE TABLE a CLON b") is not None


HOSTILE = "a\"b'c\\d\ne\tf`g\u00e9\U0001f600); DROP TABLE x; --"


def script(properties: dict[str, str]) -> str:
    spark = SparkSettings(procedure_connection="my-project.eu.spark")
    profile = Deployment.model_construct(project="my-project", location="EU", dataset="warehouse", spark=spark)
    runs = ProcedureRunner(lambda: None, profile, "feed", SQL)  # type: ignore[arg-type, return-value]
    return runs.script(SparkJobSpec("r", "gs://code/main.py", "gs://code/a.zip", properties, {}, 60))


@pytest.mark.parametrize("properties", [{}, {"spark.a": "1"}, {"spark.a": "1", "spark.b": HOSTILE}])
def test_googles_grammar_accepts_the_script(zetasql: ZetaSql, properties: dict[str, str]) -> None:
    assert zetasql.check(script(properties)) is None


def test_values_are_literals_that_cannot_be_left() -> None:
    text = script({"spark.b": HOSTILE})
    assert '("spark.b", "a\\"b\'c\\\\d\\ne\\tf`g\u00e9\U0001f600); DROP TABLE x; --")' in text
    assert text.count("CALL `my-project.warehouse.dedup_clone_feed`(@request)") == 1
