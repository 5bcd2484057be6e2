"""Which tables a bootstrap refuses to take over, by their metadata."""

from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.table import Column
from dedup_clone.operations.takeover import partition_problems, table_problems
from dedup_clone.settings.feed import read_feed
from dedup_clone.warehouse.metadata import TableMetadata
from testkit.feed_on_stand_in import REPOSITORY

NOW = datetime(2026, 6, 15, tzinfo=UTC)
FEED = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
COLUMNS = FEED.table.to_contract().columns


def services(*, row_policies: tuple[str, ...] = (), views: tuple[str, ...] = ()) -> Any:
    of_dataset = SimpleNamespace(policies=lambda name: SimpleNamespace(row_access=row_policies))
    warehouse = SimpleNamespace(
        location="EU",
        table=lambda name: None,
        with_dataset=lambda name: of_dataset,
        materialized_views_of=lambda name: list(views),
    )
    return SimpleNamespace(feed=FEED, warehouse=warehouse, names=SimpleNamespace(dataset="warehouse"))


def table(**changes: Any) -> TableMetadata:
    values: dict[str, Any] = {
        **{"name": "target", "columns": COLUMNS, "rows": 1, "size": 8, "location": "eu"},
        **{"partition_column": "date", "granularity": "DAY", "expiration_days": 730},
        **{"cluster_by": FEED.table.cluster_by, "labels": {}, "streaming_buffer": None},
        **{"clone_of": None, "clone_time": None, "created_at": NOW},
    }
    return TableMetadata(**{**values, **changes})


def retyped(name: str, kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) if column.name == name else column for column in COLUMNS)


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "a view": ({"kind": "VIEW"}, "[VIEW]"),
    "elsewhere": ({"location": "US"}, "[US]"),
    "a partition a month": ({"granularity": "MONTH"}, "[MONTH]"),
    "no partitions": ({"partition_column": None, "granularity": None}, "[no column]"),
    "clustered otherwise": ({"cluster_by": ("attr_value",)}, "clustered by [attr_value]"),
    "a column too many": ({"columns": (*COLUMNS, Column("note", "STRING"))}, "[note] is not in the feed's file"),
    "a column too few": ({"columns": COLUMNS[:-1]}, f"[{COLUMNS[-1].name}] is missing"),
    "another type": ({"columns": retyped("attr_value", "STRING")}, "[attr_value] is STRING, expected INT64"),
    "digits would be lost": ({"columns": retyped("attr_value", "FLOAT64")}, "FLOAT64 columns [attr_value]"),
    "streamed rows": ({"streaming_buffer": object()}, "streaming buffer"),
    "records are lost": ({"labels": {"dedup_clone_generation": "3"}}, "deploy recover"),
    "a label": ({"options": {"label [team]": "stores"}}, "team"),
    "a tag of a nested column": ({"options": {"policy tag of column [shop.owner]": "t"}}, "shop.owner"),
    "expires": ({"expires_at": NOW}, "it would be deleted"),
}


@pytest.mark.parametrize(("changes", "words"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_table_that_cannot_be_taken_over_is_refused(changes: dict[str, Any], words: str) -> None:
    assert table_problems(services(), table(), is_target=True) == []
    problems = table_problems(services(), table(**changes), is_target=True)
    assert any(words in problem for problem in problems), problems


def test_only_what_target_loses_is_a_problem() -> None:
    for lost in (services(row_policies=("own",)), services(views=("daily",))):
        assert len(table_problems(lost, table(), is_target=True)) == 1
        assert table_problems(lost, table(), is_target=False) == []
    assert table_problems(services(), table(cluster_by=(), options={"label [team]": "a"}), is_target=False) == []


@pytest.mark.parametrize(
    ("partition", "is_refused"),
    [("__NULL__", True), ("__UNPARTITIONED__", True), ("20260617", True), ("20260616", False)],
)
def test_rows_without_a_date_and_of_the_future_are_refused(partition: str, is_refused: bool) -> None:
    observed: Any = SimpleNamespace(partitions=[SimpleNamespace(partition_id=partition, rows=2)])
    problems = partition_problems(services(), observed, date(2026, 6, 16))
    assert [partition in problem for problem in problems] == [True] * is_refused
