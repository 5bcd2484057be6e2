"""The order in which partitions are audited, the fingerprint of a partition's rows, and the hash that it is made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.audit.choose_partitions import auditable_dates, order_by_last_audit
from dedup_clone.audit.farm_fingerprint import farm_fingerprints
from dedup_clone.audit.fingerprint_files import fingerprint_batches, fingerprint_files, rows_per_batch
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits, PartitionFingerprint
from devstack.bigquery.sql.farm_fingerprint import farm_fingerprint as stand_ins_fingerprint
from devstack.zetasql.evaluate import ReferenceEvaluator
from tests.shared.audit_values import TABLE, batch, random_rows
from tests.spark import file_catalogue

Row = dict[str, Any]
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAYS = [date(2026, 6, day) for day in range(1, 6)]
# One or more of each form that the hash has, and the lengths at which one form ends.
LENGTHS = (*range(140), 191, 192, 193, 255, 256, 257, 1000, 4096, 4097)
_source = random.Random(1)
TEXTS = ["".join(_source.choice("ab0;:n\x00\x7f") for _ in range(length)) for length in LENGTHS]


def audited(day: date, days_ago: int, outcome: AuditOutcome = AuditOutcome.EQUAL) -> AuditRecord:
    return AuditRecord(day, 1, outcome, NOW - timedelta(days=days_ago), None, None, 0)


def audit_order(*records: AuditRecord) -> list[int]:
    return [day.day for day in order_by_last_audit(set(DAYS), Audits(NOW.date(), {}, records))]


def test_unequal_ones_come_first_then_those_never_audited_then_the_longest_ago() -> None:
    assert audit_order() == [5, 4, 3, 2, 1]
    assert audit_order(audited(DAYS[4], 1), audited(DAYS[3], 2)) == [3, 2, 1, 4, 5]
    assert audit_order(audited(DAYS[0], 1, AuditOutcome.UNEQUAL), audited(DAYS[4], 9)) == [1, 4, 3, 2, 5]
    assert audit_order(audited(DAYS[2], 1, AuditOutcome.OVER_BUDGET)) == [5, 4, 2, 1, 3]


def test_what_was_found_of_dates_that_are_gone_is_dropped() -> None:
    audits = Audits(NOW.date(), {}, (audited(DAYS[0], 3), audited(DAYS[1], 2)))
    found = audits.with_records((audited(DAYS[2], 0),), retained={DAYS[1], DAYS[2]})
    assert [record.date for record in found.records] == DAYS[1:3]


@pytest.mark.parametrize(("retention_days", "expected"), [(730, [1, 2, 3, 4]), (14, [4]), (13, []), (1, [])])
def test_partitions_that_end_soon_or_are_empty_are_left_out(retention_days: int, expected: list[int]) -> None:
    entries = [SimpleNamespace(date=day, rows=rows) for day, rows in zip(DAYS, (1, 1, 1, 1, 0), strict=True)]
    manifest: Any = SimpleNamespace(table=SimpleNamespace(retention_days=retention_days), dates=entries)
    assert sorted(day.day for day in auditable_dates(manifest, NOW)) == expected


def of_all(texts: list[str]) -> list[int]:
    return farm_fingerprints(pa.array(texts, pa.large_string())).tolist()


def test_documented_hashes() -> None:
    """Source: "Hash functions", FARM_FINGERPRINT, example."""
    expected = [-1541654101129638711, 2794438866806483259, -4880158226897771312]
    assert of_all(["1footrue", "2applefalse", "3true"]) == expected


def test_hashes_of_texts_of_all_lengths_equal_the_reference_implementation(reference: ReferenceEvaluator) -> None:
    calls = ", ".join(f"FARM_FINGERPRINT(FROM_HEX('{text.encode().hex()}')) AS c{i}" for i, text in enumerate(TEXTS))
    assert of_all(TEXTS) == list(reference.evaluate(f"SELECT {calls}").rows[0])
    assert of_all(TEXTS) == [stand_ins_fingerprint(text.encode()) for text in TEXTS]


@pytest.mark.parametrize(("start", "length"), [(0, 5), (3, 40), (100, None), (7, 0)])
def test_a_part_of_an_array_has_the_fingerprints_of_its_texts(start: int, length: int | None) -> None:
    part = pa.array(TEXTS, pa.large_string()).slice(start, length)
    assert farm_fingerprints(part).tolist() == of_all(part.to_pylist())


def fingerprint(rows: list[Row], *, batch_rows: int = 17) -> PartitionFingerprint:
    whole = batch(rows)
    return fingerprint_batches(TABLE, [whole.slice(at, batch_rows) for at in range(0, len(rows), batch_rows)])


def test_the_order_of_rows_and_their_batches_do_not_count() -> None:
    rows = random_rows(1, 60)
    assert fingerprint(rows[::-1], batch_rows=60) == fingerprint(rows)
    assert fingerprint([]) == PartitionFingerprint(0, 0, 0)


@pytest.mark.parametrize(("row_bytes", "expected"), [(1, 16_384), (64, 16_384), (1 << 20, 16), (1 << 30, 1)])
def test_batches_of_long_rows_have_few(row_bytes: int, expected: int) -> None:
    group: Any = SimpleNamespace(total_byte_size=row_bytes * 100, num_rows=100)
    assert rows_per_batch(group) == expected


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
    *(one_value, one_bit_of_a_float, a_missing_row, a_row_twice, two_rows_twice_instead_of_two_others),
    *(null_instead_of_empty, values_swapped_between_two_rows, elements_in_another_order, a_nested_value),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_change_is_seen(change: Callable[[list[Row]], None]) -> None:
    rows = random_rows(4, 60)
    change(rows)
    assert fingerprint(rows) != fingerprint(random_rows(4, 60))


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
