"""Deliveries that break the data contract, under the engines in SQL: set aside with file, column and count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.engines import dedup_in_bigquery
from dedup_clone.engines.delivery_examination import column_problems
from dedup_clone.orchestration.dag_factory import is_permanent
from dedup_clone.warehouse.jobs import Jobs
from dedup_spark.column_types import arrow_schema
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table, parquet
from testkit.feed_on_stand_in import TODAY, row
from testkit.table_contracts import NESTED, PRODUCTS
from tests.shared.bad_deliveries import COLUMNS, FILES, PLACES, VALUES
from tests.shared.typed_deliveries import TYPED, good, with_row
from tests.thoroughness import every_third

PART = f"date={TODAY}/part-0.parquet"
# Wrong values cost a query each; wrong names and columns are found by the code that the DAG and unit tests run, too.
CASES = [case for case in (*every_third([*FILES, *PLACES, *COLUMNS]), *VALUES) if case.sql]


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(PRODUCTS))


@pytest.fixture
def typed(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(TYPED))


def test_each_bad_delivery_is_set_aside_and_the_good_one_is_published(typed: FeedAgainstOracle) -> None:
    typed.publish(typed.land_files(1, good(1)), engine=Engine.BIGQUERY)
    landed = {typed.land_files(number, case.make(number)): case for number, case in enumerate(CASES, start=2)}
    typed.publish(typed.land_files(900, good(900)), engine=Engine.BIGQUERY)
    assert {row[-1][1] for row in typed.table_rows()} == {900}
    candidate = typed.services.manifests.candidate(typed.manifest().attempt)
    assert candidate
    refused = {item.delivery.name: item.reason for item in candidate.refused}
    assert [case.name for name, case in landed.items() if name not in refused] == []
    for name, case in landed.items():
        assert [text for text in case.said if text not in refused[name]] == [], (case.name, refused[name])
        assert "the marker last" in refused[name]
    assert set(typed.state.deliveries("refused")) == landed.keys()


def test_nothing_is_published_when_all_are_refused(typed: FeedAgainstOracle) -> None:
    typed.publish(typed.land_files(1, good(1)), engine=Engine.MERGE)
    before = typed.table_rows()
    attempt = typed.resolve(typed.land_files(2, with_row(code=None)(2)), engine=Engine.MERGE)
    with pytest.raises(DeliveryRefused, match=r"column \[code\]: 1 rows are \[NULL\]"):
        typed.deduplicate(attempt)
    assert typed.table_rows() == before
    record = typed.services.ledger.read(attempt.id)
    assert record
    assert (record.outcome, record.engine) == ("refused", "merge")


def test_rows_older_than_the_retention_are_dropped_and_counted(world: FeedAgainstOracle) -> None:
    """A delivery of nothing but old rows changes nothing."""
    old, ancient = TODAY - timedelta(days=PRODUCTS.retention_days), date(1999, 12, 31)
    rows = [row(1, 1), row(1, 2, day=old), row(1, 3, day=ancient)]
    world.publish(world.land(1, rows), engine=Engine.BIGQUERY)
    assert [r[1] for r in world.table_rows()] == [[1, 1]]
    assert world.manifest().dropped_rows == 2
    world.publish(world.land(2, [row(2, 2, day=ancient)]), engine=Engine.BIGQUERY)
    assert [r[1] for r in world.table_rows()] == [[1, 1]]
    assert [entry.plan for entry in world.manifest().dates] == ["copied forward"]


def test_a_delivery_may_have_more_dates_than_one_job_may_write(clients: tuple[Storage, BigQuery]) -> None:
    """BigQuery's page "Quotas and limits": one job may modify 4,000 partitions. Dates before the retention go."""
    world = FeedAgainstOracle(clients, feed_with_table(PRODUCTS, Engine.BIGQUERY, date_folders=False))
    world.publish(world.land(1, [row(1, 1, day=TODAY - timedelta(days=days)) for days in range(4001)]))
    assert len(world.table_rows()) == len(world.manifest().dates) == 730
    assert world.manifest().dropped_rows == 3271


def overwrite(world: FeedAgainstOracle) -> None:
    world.overwrite(1, PART, parquet(pa.Table.from_pylist([row(1, 9)], schema=arrow_schema(PRODUCTS.columns))))


def test_landing_that_changes_under_the_engine_fails_the_run(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    count_dates = dedup_in_bigquery.count_dates

    def count_while_the_producer_writes(*arguments: Any) -> Any:
        overwrite(world)
        return count_dates(*arguments)

    monkeypatch.setattr(dedup_in_bigquery, "count_dates", count_while_the_producer_writes)
    with pytest.raises(DeliveryRefused, match=r"part-0\.parquet\] was replaced"):
        world.deduplicate(attempt)
    assert world.services.manifests.candidate(attempt.id) is None


def add_objects(world: FeedAgainstOracle) -> None:
    world.overwrite(1, f"date={TODAY}/late.parquet", b"x")
    world.overwrite(1, "_temporary/ignored", b"x")


@pytest.mark.parametrize(
    ("change", "said"), [(overwrite, "was replaced"), (add_objects, "appeared after the inventory was taken")]
)
def test_a_delivery_that_was_changed_before_is_refused(
    world: FeedAgainstOracle, change: Callable[[FeedAgainstOracle], None], said: str
) -> None:
    name = world.land(1, [row(1, 1)])
    change(world)
    attempt = world.resolve(name, engine=Engine.BIGQUERY)
    with pytest.raises(DeliveryRefused, match=said):
        world.deduplicate(attempt)


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
@pytest.mark.parametrize("died", ["append_2", "evidence"])
def test_a_delivery_whose_rows_an_earlier_try_appended_is_refused_by_the_next_attempt_only(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, engine: Engine, died: str
) -> None:
    """Its rows are in the attempt's table, or a job that appends them may still be started."""
    world.publish(world.land(1, [row(1, 1)]), engine=engine)
    valid, changed = world.land(2, [row(2, 1)]), world.land(3, [row(3, 1), row(3, 2)])
    attempt = world.resolve(changed, engine=engine)
    start = Jobs.start

    def die(jobs: Jobs, job_id: str, configuration: Any) -> None:
        if f"-{died}-" in job_id:
            raise ConnectionError("the process ends")
        start(jobs, job_id, configuration)

    monkeypatch.setattr(Jobs, "start", die)
    with pytest.raises(ConnectionError):
        world.deduplicate(attempt)
    monkeypatch.undo()
    world.overwrite(3, PART, parquet(pa.Table.from_pylist([row(3, 9)], schema=arrow_schema(PRODUCTS.columns))))
    for _ in range(2):
        with pytest.raises(DeliveryRefused, match=r"was replaced.*appended its rows to \[warehouse\.") as refused:
            world.deduplicate(attempt)
        assert is_permanent(refused.value)
    assert world.services.manifests.candidate(attempt.id) is None
    assert world.state.deliveries("refused") == []
    world.publish(changed, engine=engine, run_id="again")
    assert world.state.deliveries("refused") == [changed]
    assert [delivery.name for delivery in world.manifest().applied] == [valid]
    assert [found[1] for found in world.table_rows()] == [[1, 1]]  # product 1, and not product 2


INFO = next(column for column in NESTED.columns if column.name == "info")


def declared_with(name: str, *new: Column) -> tuple[Column, ...]:
    """The columns of the table, one of them replaced, or left out."""
    return tuple(c for column in NESTED.columns for c in (new if column.name == name else (column,)))


def with_label(new: Column) -> Column:
    return replace(INFO, fields=tuple(new if field.name == "label" else field for field in INFO.fields))


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        (
            declared_with("info", with_label(Column("label", "INT64"))),
            ["column [info.label] is [INT64], expected [STRING]"],
        ),
        (declared_with("tags", Column("tags", "STRING")), ["column [tags] is [STRING], expected [ARRAY of STRING]"]),
        (declared_with("raw"), ["column [raw] is missing, expected [BYTES]"]),
        (
            declared_with("info", with_label(Column("LABEL", "STRING"))),
            [
                "column [info.LABEL] is not declared in the feed file: only its case differs from [info.label], write "
                "it as declared",
                "column [info.label] is missing, expected [STRING]",
            ],
        ),
    ],
)
def test_nested_columns_are_compared_field_by_field(found: tuple[Column, ...], problems: list[str]) -> None:
    assert column_problems(NESTED.columns, found) == problems


def test_a_required_field_may_be_null_only_in_a_null_struct(clients: tuple[Storage, BigQuery]) -> None:
    city = pa.struct([pa.field("city", pa.string())])
    fields = (Column("city", "STRING", ColumnMode.REQUIRED),)
    columns = (Column("info", "STRUCT", fields=fields), Column("infos", "STRUCT", ColumnMode.REPEATED, fields))
    world = FeedAgainstOracle(clients, feed_with_table(replace(PRODUCTS, columns=(*PRODUCTS.columns, *columns))))
    schema = arrow_schema(PRODUCTS.columns).append(pa.field("info", city)).append(pa.field("infos", pa.list_(city)))

    def land(snapshot_id: int, info: dict[str, Any] | None, infos: list[dict[str, Any]]) -> str:
        rows = [{**row(snapshot_id, 1), "info": info, "infos": infos}]
        return world.land_files(snapshot_id, {PART: parquet(pa.Table.from_pylist(rows, schema=schema))})

    bern, nowhere = {"city": "Bern"}, {"city": None}
    refused = [land(1, nowhere, [bern]), land(2, bern, [bern, nowhere])]
    world.publish(land(3, None, []), engine=Engine.BIGQUERY)
    reasons = [world.state.read(f"refused/{name}.json")["reason"] for name in refused]
    assert ["column [info.city]: 1 rows are [NULL]" in reason for reason in reasons] == [True, False]
    assert ["column [infos.city]: 1 rows are [NULL]" in reason for reason in reasons] == [False, True]
