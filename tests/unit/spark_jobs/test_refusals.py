"""Deliveries that break the data contract: refused by name, before Spark is even needed."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.landing.cast_checks import CastChecks
from testkit.spark_job_feed import LATEST_DAY, SparkJobFeed
from testkit.table_contracts import PRODUCTS

DAY = date(2026, 3, 1)
SCHEMA = arrow_schema(PRODUCTS.columns)


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


def rows(count: int = 3, **changes: Any) -> list[dict[str, Any]]:
    """Rows of snapshot 1; `changes` apply to the last one."""
    made = [
        {"date": DAY, "product_id": n, "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": 1}
        for n in range(count)
    ]
    made[-1].update(changes)
    return made


def parquet(content: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(content, stream)
    return stream.getvalue()


def deliver(area: SparkJobFeed, content: pa.Table | bytes, name: str = "date=2026-03-01/part-0.parquet") -> Arrival:
    area.put(1, name, content)
    return area.arrive(1)


def reason(candidate: Candidate) -> str:
    assert candidate.manifest is None
    assert candidate.file_list_uri is None
    (refused,) = candidate.refused
    return refused.reason


@pytest.mark.parametrize(
    ("changes", "column", "said"),
    [
        ({"date": None}, "date", "1 rows are [NULL], expected none"),
        ({"product_id": None}, "product_id", "1 rows are [NULL], expected none"),
        ({"update_id": None}, "update_id", "1 rows are [NULL], expected none"),
        ({"update_id": 2}, "update_id", "1 rows have another id, expected the folder's [1]"),
        ({"date": date(2026, 3, 2)}, "date", "1 rows have another date such as [2026-03-02], expected its folder's"),
        ({"date": date(2030, 1, 2)}, "date", f"1 rows have a date up to [2030-01-02], expected at most [{LATEST_DAY}]"),
    ],
)
def test_refuses_wrong_contents_naming_file_column_and_count(
    area: SparkJobFeed, changes: dict[str, Any], column: str, said: str
) -> None:
    text = reason(area.publish(deliver(area, pa.Table.from_pylist(rows(**changes), schema=SCHEMA))))
    assert f"part-0.parquet] column [{column}]: {said}" in text
    assert "deliver snapshot [1] again" in text


def test_footer_statistics_that_lie_are_not_believed(area: SparkJobFeed) -> None:
    """Two row groups: the first alone would look right."""
    stream = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows(update_id=9), schema=SCHEMA), stream, row_group_size=2, write_statistics=False
    )
    assert "1 rows have another id" in reason(area.publish(deliver(area, stream.getvalue())))


def test_refuses_a_date_that_no_calendar_has(area: SparkJobFeed) -> None:
    days = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    content = pa.Table.from_pylist(rows(1), schema=SCHEMA).set_column(0, "date", days)
    assert "expected at most [2030-01-01]" in reason(area.publish(deliver(area, content)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty (0 bytes)"),
        (b"PAR1 is not enough", "cannot be read as Parquet"),
        (parquet(pa.Table.from_pylist(rows(1000), schema=SCHEMA))[:-200], "a Parquet file without its end: upload"),
        (parquet(pa.table({"x": [1]})), "column [x] is not declared"),
        (
            parquet(SCHEMA.empty_table().drop_columns(["attr_value"])),
            "column [attr_value] is missing, expected [INT64]",
        ),
        (
            parquet(SCHEMA.set(4, pa.field("attr_value", pa.string())).empty_table()),
            "column [attr_value] is [BYTE_ARRAY String], expected [INT64]",
        ),
    ],
    ids=["empty", "garbage", "truncated", "unlisted_column", "missing_column", "changed_type"],
)
def test_refuses_files_that_are_no_whole_parquet_of_the_declared_columns(
    area: SparkJobFeed, content: bytes, said: str
) -> None:
    text = reason(area.publish(deliver(area, content)))
    assert said in text
    assert "date=2026-03-01/part-0.parquet" in text
    assert ".. Next:" not in text


GOOD = parquet(pa.Table.from_pylist(rows(), schema=SCHEMA))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("date=2026-03-01/part-0.csv", "is no data file, expected a name that ends in [.parquet]"),
        ("part-0.parquet", "is in no folder [date=YYYY-MM-DD]"),
        ("date=2026-03-32/part-0.parquet", "is in no folder [date=YYYY-MM-DD]"),
        ("day=2026-03-01/part-0.parquet", "is in no folder [date=YYYY-MM-DD]"),
        ("_SUCCESS", "holds no data files [*.parquet]"),
        ("date=2026-03-01/.part-0.parquet.crc", "holds no data files [*.parquet]"),
    ],
)
def test_refuses_objects_that_are_not_where_data_files_belong(area: SparkJobFeed, name: str, said: str) -> None:
    assert said in reason(area.publish(deliver(area, GOOD, name)))


def test_refuses_objects_newer_than_the_marker(area: SparkJobFeed) -> None:
    arrival = deliver(area, GOOD)
    late = replace(arrival, late_objects=(arrival.objects[0].name,))
    assert "part-0.parquet] is newer than the marker" in reason(area.publish(late))


def _replace(path: Path) -> None:
    path.write_bytes(GOOD + b" ")


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _add(path: Path) -> None:
    path.with_name("part-1.parquet").write_bytes(GOOD)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Path.unlink, "is gone"),
        (_replace, "was replaced"),
        (_touch, "was replaced: found generation [1]"),
        (_add, "part-1.parquet] appeared after the inventory was taken"),
    ],
    ids=["gone", "other_size", "other_generation", "appeared"],
)
def test_refuses_a_delivery_that_changed_since_it_was_noticed(
    area: SparkJobFeed, change: Callable[[Path], None], said: str
) -> None:
    arrival = deliver(area, GOOD)
    change(Path(area.uri(arrival.objects[0].name)))
    assert said in reason(area.publish(arrival))


def test_names_the_first_problems_and_counts_the_others(area: SparkJobFeed) -> None:
    for number in range(8):
        area.put(1, f"date=2026-03-01/part-{number}.parquet", b"")
    text = reason(area.publish(area.arrive(1)))
    assert text.count("is empty") == 5
    assert "and 3 more" in text


def test_refuses_null_in_a_required_column(area: SparkJobFeed) -> None:
    columns = tuple(replace(c, mode=ColumnMode.REQUIRED) if c.name == "attr_value" else c for c in PRODUCTS.columns)
    area.table = replace(PRODUCTS, columns=columns)
    text = reason(area.publish(deliver(area, pa.Table.from_pylist(rows(attr_value=None), schema=SCHEMA))))
    assert "column [attr_value]: 1 rows are [NULL]" in text


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("attr_value", "TIME"), "Column [attr_value] is [TIME], expected one of"),
        (Column("product_id", "FLOAT64"), "Key column [product_id] is [FLOAT64 NULLABLE], expected one of"),
        (Column("product_id", "INT64", ColumnMode.REPEATED), "not repeated"),
        (Column("update_id", "STRING"), "Column [update_id] is [STRING], expected [INT64]"),
    ],
    ids=["unknown_type", "float_key", "repeated_key", "snapshot_id_type"],
)
def test_table_that_cannot_be_deduplicated_is_a_configuration_error(
    area: SparkJobFeed, column: Column, said: str
) -> None:
    area.table = replace(PRODUCTS, columns=tuple(column if c.name == column.name else c for c in PRODUCTS.columns))
    with pytest.raises(ConfigurationError) as error:
        area.publish(deliver(area, GOOD))
    assert said in str(error.value)


def test_request_without_deliveries_is_a_contract_violation(area: SparkJobFeed) -> None:
    request = replace(area.request([deliver(area, GOOD)]), deliveries=())
    with pytest.raises(ContractViolation, match="expected at least one"):
        area.run(request)


def test_arrival_of_another_delivery_is_a_contract_violation(area: SparkJobFeed) -> None:
    arrival = deliver(area, GOOD)
    request = area.request([arrival])
    other = replace(request.deliveries[0].delivery, marker_generation=99)
    request = replace(request, deliveries=(replace(request.deliveries[0], delivery=other),))
    with pytest.raises(ContractViolation, match=r"expected \[1-99\]"):
        area.run(request)


def test_complete_attempt_is_left_as_it_is(area: SparkJobFeed) -> None:
    request = area.request([deliver(area, b"")])
    first = area.run(request)
    storage.write_text(request.deliveries[0].arrival_uri, "not read again")
    assert area.run(request) == first


def test_the_row_of_a_value_that_cannot_be_cast_counts_from_the_start_of_the_file() -> None:
    checks, column = CastChecks(), Column("name", "STRING")
    for rows_before, values in ((0, [b"a", b"b"]), (2, [b"c", b"\xe9", b"\xe9"])):
        checks.add(column, pa.array(values, pa.binary()), rows_before)
    assert checks.problems((column,)) == ["column [name]: 2 values cannot be cast to [STRING], the first in row [4]"]


def test_the_row_of_an_array_that_cannot_be_cast_is_found_among_good_ones() -> None:
    checks, column = CastChecks(), Column("tags", "STRING", ColumnMode.REPEATED)
    checks.add(column, pa.array([[b"ok"], [b"fine", b"good"], [b"\xff"], []], pa.list_(pa.binary())), 0)
    assert checks.problems((column,)) == ["column [tags]: 1 values cannot be cast to [STRING], the first in row [3]"]
