"""The fingerprint of a partition's rows: what changes it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.audit.fingerprint_files import (
    MAX_BATCH_ROWS,
    fingerprint_batches,
    fingerprint_files,
    rows_per_batch,
)
from dedup_clone.state.audits import PartitionFingerprint
from tests.shared.audit_values import TABLE, batch, random_rows
from tests.spark import file_catalogue

Row = dict[str, Any]
ROWS = 60


def fingerprint(rows: list[Row], *, rows_per_batch: int = 17) -> PartitionFingerprint:
    whole = batch(rows)
    return fingerprint_batches(TABLE, [whole.slice(at, rows_per_batch) for at in range(0, len(rows), rows_per_batch)])


def test_the_order_of_rows_and_their_batches_do_not_count() -> None:
    rows = random_rows(1, ROWS)
    assert fingerprint(rows[::-1], rows_per_batch=60) == fingerprint(rows)


@pytest.mark.parametrize(
    ("row_bytes", "expected"), [(1, MAX_BATCH_ROWS), (64, MAX_BATCH_ROWS), (1 << 20, 16), (1 << 30, 1)]
)
def test_batches_of_long_rows_have_few(row_bytes: int, expected: int) -> None:
    group: Any = SimpleNamespace(total_byte_size=row_bytes * 100, num_rows=100)
    assert rows_per_batch(group) == expected


def test_a_partition_without_rows() -> None:
    assert fingerprint([]) == PartitionFingerprint(0, 0, 0)


def one_value(rows: list[Row]) -> None:
    rows[20]["c_numeric"] = Decimal(1 if rows[20]["c_numeric"] != 1 else 2)


def one_bit_of_a_float(rows: list[Row]) -> None:
    rows[20]["c_float64"] = 0.1 if rows[20]["c_float64"] == 0.1 + 2**-56 else 0.1 + 2**-56


def a_missing_row(rows: list[Row]) -> None:
    del rows[20]


def a_row_twice(rows: list[Row]) -> None:
    rows.append(dict(rows[20]))


def two_rows_twice_instead_of_two_others(rows: list[Row]) -> None:
    rows[5], rows[6] = dict(rows[7]), dict(rows[7])


def null_instead_of_empty(rows: list[Row]) -> None:
    rows[20]["c_string"] = "" if rows[20]["c_string"] is None else None


def values_swapped_between_two_rows(rows: list[Row]) -> None:
    one = next(i for i, r in enumerate(rows) if r["c_bool"] is True)
    other = next(i for i, r in enumerate(rows) if r["c_bool"] is None)
    rows[one]["c_bool"], rows[other]["c_bool"] = None, True


def elements_in_another_order(rows: list[Row]) -> None:
    row = next(r for r in rows if len(set(r["r_int64"])) > 1)
    row["r_int64"] = row["r_int64"][::-1]


def a_nested_value(rows: list[Row]) -> None:
    row = next(r for r in rows if r["list"])
    row["list"][-1]["tags"] = [*row["list"][-1]["tags"], "more"]


CHANGES = (
    one_value,
    one_bit_of_a_float,
    a_missing_row,
    a_row_twice,
    two_rows_twice_instead_of_two_others,
    null_instead_of_empty,
    values_swapped_between_two_rows,
    elements_in_another_order,
    a_nested_value,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_change_is_seen(change: Callable[[list[Row]], None]) -> None:
    rows = random_rows(4, ROWS)
    change(rows)
    assert fingerprint(rows) != fingerprint(random_rows(4, ROWS))


@pytest.mark.parametrize("path", sorted(file_catalogue.STORED.glob("*.parquet")), ids=lambda path: path.stem)
def test_an_adopted_file_is_read_by_its_own_schema_whatever_arrow_schema_its_writer_added(path: Path) -> None:
    day = pq.read_table(path, columns=["day"])["day"][0].as_py()
    services: Any = SimpleNamespace(
        manifests=SimpleNamespace(
            read=lambda _: SimpleNamespace(data_folder="gs://state/data/", table=file_catalogue.TABLE),
            committed_files=lambda _: SimpleNamespace(files=[SimpleNamespace(path="a.parquet", date=day)]),
        ),
        store=SimpleNamespace(uri=lambda name: f"gs://state/{name}", open=lambda name, chunk_bytes: path.open("rb")),
        log=lambda *_, **__: None,
    )
    rows = pa.Table.from_pylist(file_catalogue.expected(day), file_catalogue.SCHEMA)
    assert fingerprint_files(services, 1, day) == fingerprint_batches(file_catalogue.TABLE, rows.to_batches())
