"""Renders each file in sql/ as the library and Airflow do, for each feed whose statements differ by more than names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.table import Absent, Column, PartitionBy
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.warehouse.sql_files import TableNames, render, render_query

REPOSITORY = Path(__file__).parents[2]
SQL = REPOSITORY / "sql"
BY_MONTH = "by_month"
FIRST_PUBLISH = "first_publish"  # the folder of statements that differ while there is no target
KEEPS_PREVIOUS = "keeps_previous"  # the folder of the swap that keeps the table that it replaces
DELETES = "deletes"  # the folder of statements that differ if keys are deleted that the newest snapshot lacks

OTHER_FORMS = [form for form in SqlForm if form is not SqlForm.QUALIFY]


def differing_feeds() -> list[Feed]:
    """The feeds in dags/feeds, of those with the same table and SQL checks only the first."""
    feeds: list[Feed] = []
    for path in sorted((REPOSITORY / "dags" / "feeds").glob("*.yaml")):
        feed = read_feed(path)
        if not any((feed.table, feed.checks.sql) == (other.table, other.checks.sql) for other in feeds):
            feeds.append(feed)
    return feeds


def rendered_statements() -> dict[str, str]:
    """`<feed>/<folder>/<file>.sql` -> text; `<feed>/first_publish/…` where it differs without a parent.

    `<feed>/deletes/…` where it differs with `absent_keys: delete`, `<feed>/keeps_previous/…` with `keep_previous`.
    `<feed>/<form>/…` where it differs by the form of engine `bigquery`, `<feed>/by_month/…` by the partitioning.
    """
    statements = {}
    for feed in differing_feeds():
        names = TableNames("local-dev", "warehouse", feed.staging, feed.target)
        for file in sorted(SQL.rglob("*.sql")):
            name = file.relative_to(SQL).as_posix()
            table = feed.table.to_contract()
            options, column = feed.table.options, table.value_columns[0]
            sources = [(c, Column(f"former_{c.name}", "BYTES") if c == column else c) for c in table.columns]
            values: dict[str, Any] = {
                "names": names,
                "table": table,
                "options": options,
                "column": column,
                "sources": [*sources, (Column("note", "STRING"), None)],
                "form": SqlForm.QUALIFY,
                "has_parent": True,
                "previous_days": 0,
                "expected": "",
            }
            statements[f"{feed.feed}/{name}"] = render(SQL, name, **values)
            first = render(SQL, name, **{**values, "has_parent": False})
            if first != statements[f"{feed.feed}/{name}"]:
                statements[f"{feed.feed}/{FIRST_PUBLISH}/{name}"] = first
            keeping = render(SQL, name, **{**values, "previous_days": 7})
            if keeping != statements[f"{feed.feed}/{name}"]:
                statements[f"{feed.feed}/{KEEPS_PREVIOUS}/{name}"] = keeping
            by_month = render(SQL, name, **{**values, "table": replace(table, partition_by=PartitionBy.MONTH)})
            if by_month != statements[f"{feed.feed}/{name}"]:
                statements[f"{feed.feed}/{BY_MONTH}/{name}"] = by_month
            deleting = replace(table, absent_keys=Absent.DELETE)
            deletes = render(SQL, name, **{**values, "table": deleting})
            if deletes != statements[f"{feed.feed}/{name}"]:
                statements[f"{feed.feed}/{DELETES}/{name}"] = deletes
            for form in OTHER_FORMS:
                text = render(SQL, name, **{**values, "form": form})
                if text != statements[f"{feed.feed}/{name}"]:
                    statements[f"{feed.feed}/{form}/{name}"] = text
        for check in feed.checks.sql:
            statements[f"{feed.feed}/sql_checks/{check.name}.sql"] = render_query(
                feed.query_of(check), name=check.name, names=names
            )
    return statements
