"""Which waiting deliveries are applied, by which engine, and whose rows a date has; Parquet footers."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_clone.contract.absent_rows import replacing_snapshots
from dedup_clone.contract.delivery import Delivery, split_backlog
from dedup_clone.contract.engine import Engine, unsupported_reason
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.parquet import read_parquet_footer
from dedup_clone.contract.table import Absent, Column, ColumnMode, TableContract, UpdateIdMode
from dedup_clone.settings.feed import read_feed
from testkit.table_contracts import NESTED, PRODUCTS
from tests.unit.checks.builders import entry


def deliveries(*names: str) -> list[Delivery]:
    return [found for name in names if (found := Delivery.parse(name))]


@pytest.mark.parametrize(
    ("waiting", "folded", "excluded", "apply", "superseded"),
    [
        pytest.param(["8-1"], [], [], ["8-1"], [], id="first delivery"),
        pytest.param(["9-5", "8-6"], [], [], ["8-6", "9-5"], [], id="highest id last, whatever landed last"),
        pytest.param(["8-1", "8-2"], [], [], ["8-2"], ["8-1"], id="re-delivery waits beside the first"),
        pytest.param(["8-1"], ["8-2"], [], [], ["8-1"], id="later delivery is in already"),
        pytest.param(["8-2"], ["8-1"], [], ["8-2"], [], id="re-delivery of a published one"),
        pytest.param(["8-1"], ["8-1"], [], [], [], id="the same delivery twice"),
        pytest.param(["7-3"], ["8-1", "9-2"], [], ["7-3"], [], id="late snapshot is applied"),
        pytest.param(["8-1", "8-2"], [], ["8-2"], ["8-1"], [], id="an excluded delivery supersedes nothing"),
    ],
)
def test_backlog(
    waiting: list[str], folded: list[str], excluded: list[str], apply: list[str], superseded: list[str]
) -> None:
    backlog = split_backlog(deliveries(*waiting), deliveries(*folded), deliveries(*excluded))
    assert [d.name for d in backlog.apply] == apply
    assert [d.name for d in backlog.superseded] == superseded


DELIVERIES = st.lists(st.builds(Delivery, st.integers(0, 4), st.integers(1, 4)), max_size=8)


@given(waiting=DELIVERIES, folded=DELIVERIES)
def test_each_id_is_applied_at_most_once_and_nothing_is_lost(waiting: list[Delivery], folded: list[Delivery]) -> None:
    backlog = split_backlog(waiting, folded, [])
    assert set(backlog.apply) | set(backlog.superseded) == set(waiting) - set(folded)
    ids = [d.snapshot_id for d in backlog.apply]
    assert ids == sorted(set(ids))


FEEDS = Path(__file__).parents[3] / "dags" / "feeds"
FLOATS = Column("floats", "FLOAT64", ColumnMode.REPEATED)
DEEP = Column("rows", "STRUCT", ColumnMode.REPEATED, (Column("more", "STRUCT", fields=(Column("x", "FLOAT64"),)),))


def with_column(column: Column) -> TableContract:
    return TableContract(
        (*PRODUCTS.columns, column), "date", "update_id", PRODUCTS.keys, PRODUCTS.cluster_by, PRODUCTS.retention_days
    )


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_arrays_of_floating_point_numbers_are_left_to_spark(engine: Engine) -> None:
    for column, path in ((FLOATS, "floats"), (DEEP, "rows.more.x")):
        problem = unsupported_reason(engine, with_column(column), UpdateIdMode.LAST_SEEN)
        assert problem
        assert f"cannot order arrays that hold FLOAT64 ({path})" in problem
        assert "use engine [spark]" in problem
        assert unsupported_reason(Engine.SPARK, with_column(column), UpdateIdMode.LAST_SEEN) is None


def test_streamed_changes_need_last_changed_and_what_bigquery_takes_as_a_primary_key() -> None:
    def reason(table: TableContract, mode: UpdateIdMode = UpdateIdMode.LAST_CHANGED) -> str:
        return unsupported_reason(Engine.CDC, table, mode) or ""

    keys = ("date", *(f"key_{number}" for number in range(16)))
    many_keys = tuple(Column(name, "INT64") for name in keys[1:])
    wide = tuple(Column(f"value_{number}", "INT64") for number in range(1996))
    assert reason(with_column(FLOATS)) == reason(NESTED) == ""
    assert "with [last_seen] every delivered row changes" in reason(PRODUCTS, UpdateIdMode.LAST_SEEN)
    named = replace(
        PRODUCTS, columns=(*PRODUCTS.columns, Column("snapshot_id", "STRING")), keys=("date", "snapshot_id")
    )
    assert "keys ['snapshot_id'] are named like these" in reason(named)
    assert "at most [16] columns" in reason(replace(PRODUCTS, columns=(*PRODUCTS.columns, *many_keys), keys=keys))
    assert "at most [2000] columns" in reason(replace(PRODUCTS, columns=(*PRODUCTS.columns, *wide)))


def test_last_changed_is_left_to_spark_and_reported_when_the_feed_is_read(tmp_path: Path) -> None:
    text = (FEEDS / "product_attributes.yaml").read_text()
    path = tmp_path / "product_attributes.yaml"
    path.write_text(f"{text}engine: merge\nupdate_id_mode: last_changed\n")
    with pytest.raises(ConfigurationError, match=r"engine \[merge\] supports update_id_mode \[last_seen\] only.*spark"):
        read_feed(path)
    path.write_text(f"{text}engine: bigquery\n")
    assert read_feed(path).engine is Engine.BIGQUERY


def footer_of(rows: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(rows, stream, **options)
    found = read_parquet_footer(stream, len(stream.getvalue()))
    assert found
    return found


def arrow_schema(footer: bytes) -> pa.Schema:
    return pq.read_schema(pa.BufferReader(footer))


def test_a_footer_larger_than_one_request_has_the_types_of_parquet() -> None:
    columns = 700
    footer = footer_of(pa.table({f"c{number}": pa.array(["x"], pa.large_string()) for number in range(columns)}))
    assert len(footer) > 70_000
    assert arrow_schema(footer).types == [pa.string()] * columns


def test_a_text_that_looks_like_the_key_of_an_arrow_schema_changes_nothing_else() -> None:
    rows = pa.table({"c": pa.array(["ARROW:schema"], pa.large_string())})
    footer = footer_of(rows)
    assert arrow_schema(footer).types == [pa.string()]
    metadata = pq.read_metadata(pa.BufferReader(footer))
    assert metadata.row_group(0).column(0).statistics.max == "ARROW:schema"
    assert metadata.num_rows == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"a,b\n1,2\n" * 9])
def test_what_does_not_end_as_a_parquet_file_has_none(content: bytes) -> None:
    assert read_parquet_footer(io.BytesIO(content), len(content)) is None


A, B, C = (date(2026, 1, day) for day in (1, 2, 3))
KEYS = replace(PRODUCTS, absent_keys=Absent.DELETE)
DATES = replace(KEYS, absent_dates=Absent.DELETE)
PARENT = {
    A: replace(entry(A), max_update_id=5),
    B: replace(entry(B), max_update_id=3, newest_snapshot=5),  # the keys of snapshot 5 were erased
}


@pytest.mark.parametrize(
    ("table", "delivered", "expected"),
    [
        (KEYS, {A: [6]}, {A: 6, B: None}),
        (KEYS, {A: [4], C: [4]}, {A: None, B: None, C: 4}),  # a late snapshot adds only what the table lacks
        (KEYS, {A: [5], B: [4]}, {A: 5, B: None}),  # a correction; and one that is older than what was erased
        (KEYS, {A: [6, 8], B: [6]}, {A: 8, B: 6}),
        (DATES, {A: [6]}, {A: 6}),
        (DATES, {A: [6, 8], B: [6]}, {A: 8}),
        (DATES, {A: [4], C: [4]}, {A: None, B: None}),
        (DATES, {}, {A: None, B: None}),  # all of its rows have expired
    ],
)
def test_replacing_snapshots(table: object, delivered: dict[date, list[int]], expected: dict[date, int | None]) -> None:
    assert replacing_snapshots(table, delivered, PARENT, 5, only_some_dates=False) == expected


def test_a_replay_of_some_dates_deletes_no_other() -> None:
    assert replacing_snapshots(DATES, {A: [6]}, PARENT, 5, only_some_dates=True) == {A: 6, B: None}
    assert replacing_snapshots(DATES, {C: [4]}, PARENT, 5, only_some_dates=True) == {A: None, B: None}


def test_the_first_publish_has_the_newest_rows_of_each_date() -> None:
    assert replacing_snapshots(KEYS, {A: [1, 2], B: [1]}, {}, None, only_some_dates=False) == {A: 2, B: 1}
    assert replacing_snapshots(DATES, {A: [1, 2], B: [1]}, {}, None, only_some_dates=False) == {A: 2}
