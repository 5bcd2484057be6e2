"""Deliveries that break the data contract, under each engine in SQL: set aside with file, column and count."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.engines import dedup_in_bigquery
from dedup_clone.engines.file_problems import column_problems
from dedup_clone.state.ledger import Outcome
from dedup_spark.column_types import arrow_schema
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table, parquet
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.table_contracts import NESTED, PRODUCTS

PART = f"date={TODAY}/part-0.parquet"


def one(snapshot_id: int, **changes: Any) -> pa.Table:
    schema = arrow_schema(PRODUCTS.columns)
    return pa.Table.from_pylist([{**row(snapshot_id, 1), **changes}, row(snapshot_id, 2)], schema=schema)


def retyped(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    number = table.schema.get_field_index(name)
    return table.set_column(number, name, table.column(name).cast(kind))


def broken_pages(table: pa.Table) -> bytes:
    """Valid footer, keys and ids; the pages of attr_value are overwritten."""
    content = bytearray(parquet(table))
    column = pq.ParquetFile(io.BytesIO(bytes(content))).metadata.row_group(0).column(4)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    return bytes(content)


# Each case makes the files of a delivery, of the snapshot id that it is given, and what the reason says.
Case = tuple[Callable[[int], dict[str, bytes]], str]
CASES: dict[str, Case] = {
    "null key": (
        lambda n: {PART: parquet(one(n, store_id=None))},
        "column [store_id]: 1 rows are [NULL], expected none",
    ),
    "null date": (lambda n: {PART: parquet(one(n, date=None))}, "column [date]: 1 rows are [NULL], expected none"),
    "other date": (
        lambda n: {PART: parquet(one(n, date=YESTERDAY))},
        f"column [date]: 1 rows have another date such as [{YESTERDAY}], expected its folder's [{TODAY}]",
    ),
    "late date": (
        lambda n: {f"date={TODAY + timedelta(days=9)}/a.parquet": parquet(one(n, date=TODAY + timedelta(days=9)))},
        f"1 rows have a date up to [{TODAY + timedelta(days=9)}], expected at most [{TODAY + timedelta(days=1)}]",
    ),
    "other id": (
        lambda n: {PART: parquet(one(n, update_id=999))},
        "column [update_id]: 1 rows have another id, expected the folder's [",
    ),
    "missing column": (
        lambda n: {PART: parquet(one(n)), f"date={TODAY}/a.parquet": parquet(one(n).drop_columns(["attr_value"]))},
        "a.parquet] column [attr_value] is missing, expected [INT64]",
    ),
    "extra column": (
        lambda n: {PART: parquet(one(n).append_column("more", pa.array([1, 2])))},
        "column [more] is not declared in the feed file",
    ),
    "retyped column": (
        lambda n: {PART: parquet(retyped(one(n), "attr_value", pa.string()))},
        "column [attr_value] is [STRING], expected [INT64]",
    ),
    "no parquet": (lambda n: {PART: b"date,product_id\n"}, f"{PART}] cannot be read as Parquet: "),
    "empty file": (lambda n: {PART: b""}, f"{PART}] is empty (0 bytes), expected a Parquet file"),
    "no date folder": (lambda n: {"part-0.parquet": parquet(one(n))}, "is in no folder [date=YYYY-MM-DD]"),
    "no data file": (lambda n: {f"date={TODAY}/part-0.csv": b"1"}, "expected a name that ends in [.parquet]"),
    "no files": (lambda n: {}, "holds no data files [*.parquet]"),
    "no rows": (lambda n: {PART: parquet(one(n)[:0])}, "/] holds no row in [1] data files, expected a complete"),
    "broken pages": (lambda n: {PART: broken_pages(one(n))}, "part-0.parquet] cannot be read by BigQuery: "),
}


@pytest.fixture(params=[Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Both engines examine deliveries with the same statements."""
    found: Engine = request.param
    return found


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(PRODUCTS))


def test_each_bad_delivery_is_set_aside_and_the_good_one_is_published(world: FeedAgainstOracle, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 7)]), engine=engine)
    reasons = {}
    for number, (make, reason) in enumerate(CASES.values(), start=2):
        reasons[world.land_files(number, make(number))] = reason
    good = world.land(100, [row(100, 1)])
    world.publish(good, engine=engine)
    assert sorted((r[1], r[5]) for r in world.table_rows()) == [([1, 1], [1, 100]), ([1, 7], [1, 1])]
    candidate = world.services.manifests.candidate(world.manifest().attempt)
    assert candidate
    refused = {item.delivery.name: item.reason for item in candidate.refused}
    assert refused.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in refused[name]
        assert "the marker last" in refused[name]
    assert {d.name for d in world.services.arrivals.refused()} == refused.keys()


def test_nothing_is_published_when_all_are_refused(world: FeedAgainstOracle, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1)]), engine=engine)
    before = world.table_rows()
    spec = world.resolve(world.land_files(2, {PART: parquet(one(2, store_id=None))}), engine=engine)
    with pytest.raises(DeliveryRefused, match=r"column \[store_id\]: 1 rows are \[NULL\]"):
        world.deduplicate(spec)
    assert world.table_rows() == before
    record = world.services.ledger.read(spec.attempt)
    assert record
    assert (record.outcome, record.engine) == (Outcome.REFUSED, engine)


def test_rows_older_than_the_retention_are_dropped_and_counted(world: FeedAgainstOracle, engine: Engine) -> None:
    old = TODAY - timedelta(days=PRODUCTS.retention_days)
    world.publish(world.land(1, [row(1, 1), row(1, 2, day=old), row(1, 3, day=date(1999, 12, 31))]), engine=engine)
    assert [r[1] for r in world.table_rows()] == [[1, 1]]
    assert world.manifest().dropped_rows == 2
    # A delivery of nothing but old rows changes nothing.
    world.publish(world.land(2, [row(2, 2, day=date(1999, 12, 31))]), engine=engine)
    assert [r[1] for r in world.table_rows()] == [[1, 1]]
    assert [e.plan for e in world.manifest().dates] == ["carried"]


def test_landing_that_changes_under_the_engine_fails_the_run(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    real = dedup_in_bigquery.count_dates

    def gather_while_the_producer_writes(*arguments: Any) -> Any:
        name = f"{world.feed.landing.prefix}/snapshot_id=1/{PART}"
        world.storage.bucket("landing").blob(name).upload_from_string(parquet(one(1)))
        return real(*arguments)

    monkeypatch.setattr(dedup_in_bigquery, "count_dates", gather_while_the_producer_writes)
    with pytest.raises(DeliveryRefused, match=r"part-0\.parquet\] was replaced"):
        world.deduplicate(spec)
    assert world.services.manifests.candidate(spec.attempt) is None


def test_delivery_that_was_changed_before_is_refused(world: FeedAgainstOracle) -> None:
    name = world.land(1, [row(1, 1)])
    prefix = f"{world.feed.landing.prefix}/snapshot_id=1"
    world.storage.bucket("landing").blob(f"{prefix}/date={TODAY}/late.parquet").upload_from_string(b"x")
    world.storage.bucket("landing").blob(f"{prefix}/_temporary/ignored").upload_from_string(b"x")
    spec = world.resolve(name, engine=Engine.BIGQUERY)
    with pytest.raises(DeliveryRefused, match=r"late\.parquet\] appeared after the inventory was taken"):
        world.deduplicate(spec)


def test_nested_columns_are_compared_field_by_field() -> None:
    def changed(columns: tuple[Column, ...], name: str, new: Column | None) -> tuple[Column, ...]:
        return tuple(c for c in (new if c.name == name else c for c in columns) if c)

    info = next(c for c in NESTED.columns if c.name == "info")
    other = Column("info", "STRUCT", fields=changed(info.fields, "label", Column("label", "INT64")))
    assert column_problems(NESTED.columns, changed(NESTED.columns, "info", other)) == [
        "column [info.label] is [INT64], expected [STRING]"
    ]
    assert column_problems(NESTED.columns, changed(NESTED.columns, "tags", Column("tags", "STRING"))) == [
        "column [tags] is [STRING], expected [ARRAY of STRING]"
    ]
    assert column_problems(NESTED.columns, changed(NESTED.columns, "raw", None)) == [
        "column [raw] is missing, expected [BYTES]"
    ]
    other = Column("info", "STRUCT", fields=changed(info.fields, "label", Column("LABEL", "STRING")))
    assert column_problems(NESTED.columns, changed(NESTED.columns, "info", other)) == [
        "column [info.LABEL] is not declared in the feed file: only its case differs from [info.label], write it as "
        "declared",
        "column [info.label] is missing, expected [STRING]",
    ]


def test_a_required_field_may_be_null_only_in_a_null_struct(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
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
    world.publish(land(3, None, []), engine=engine)
    reasons = [world.services.arrivals.refusal(Delivery.parse(name)) for name in refused]
    assert [r and "column [info.city]: 1 rows are [NULL]" in r.reason for r in reasons] == [True, False]
    assert [r and "column [infos.city]: 1 rows are [NULL]" in r.reason for r in reasons] == [False, True]
