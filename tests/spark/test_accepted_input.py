"""Differences between producers that are accepted: other types that hold the declared ones, other names, leftovers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.shared.damaged_parquet import claim_type, rename_in_footer
from tests.shared.typed_deliveries import DAY, FILE, FOLDER, SCHEMA, TYPED, good, nullable, parquet, row, table
from tests.spark.object_names import NAMES
from tests.spark.product_rows import FIRST
from tests.spark.product_rows import row as product_row


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """None of this needs Spark."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), TYPED)


def retyped(**kinds: pa.DataType) -> pa.Schema:
    schema = SCHEMA
    for name, kind in kinds.items():
        schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
    return schema


PART = pa.struct([("number", pa.int64()), ("price", pa.decimal128(38, 9))])
INFO = pa.struct([("since", pa.date32()), ("label", pa.string()), ("weight", pa.float32())])
REQUIRED = pa.schema([field.with_nullable(False) for field in SCHEMA])
# By name, the schema and the writer's options of a file. In Parquet, those of OTHER are not as the job writes files;
# Arrow's schema is a writer's hint.
OTHER: dict[str, tuple[pa.Schema, dict[str, Any]]] = {
    **{str(kind): (retyped(code=kind), {}) for kind in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32())},
    "int_32": (retyped(code=pa.int32(), version=pa.int32()), {}),
    "milliseconds": (retyped(seen_at=pa.timestamp("ms", tz="Asia/Tokyo"), local_at=pa.timestamp("ms")), {}),
    "short_decimal": (retyped(price=pa.decimal128(10, 2)), {}),
    "decimal_in_int": (retyped(price=pa.decimal128(7, 2)), {"store_decimal_as_integer": True}),
    "float_32": (retyped(amount=pa.float32()), {}),
    "fixed_sizes": (retyped(raw=pa.binary(2), parts=pa.list_(PART, 1)), {}),
    "nested_order": (retyped(info=INFO), {}),
    "other_order": (pa.schema(list(reversed(list(SCHEMA)))), {}),
    "nullable_everywhere": (nullable(), {}),
    "required_everywhere": (REQUIRED, {}),
    "items": (retyped(tags=pa.list_(pa.string())), {"use_compliant_nested_type": False}),
}
AS_WRITTEN: dict[str, tuple[pa.Schema, dict[str, Any]]] = {
    "dictionaries": (
        retyped(name=pa.dictionary(pa.int32(), pa.string()), note=pa.dictionary(pa.int8(), pa.string())),
        {},
    ),
    "large_types": (retyped(note=pa.large_string(), raw=pa.large_binary(), tags=pa.large_list(pa.large_string())), {}),
    "date_64": (retyped(day=pa.date64(), opened=pa.date64()), {}),
    "seconds_as_duration": (retyped(code=pa.duration("us")), {}),
    "gzip": (SCHEMA, {"compression": "gzip"}),
    "zstd": (SCHEMA, {"compression": "zstd"}),
    "uncompressed": (SCHEMA, {"compression": "none"}),
    "no_statistics": (SCHEMA, {"write_statistics": False, "store_schema": False}),
    "pages_of_version_2": (SCHEMA, {"data_page_version": "2.0"}),
    "checksums": (SCHEMA, {"write_page_checksum": True}),
    "plain": (SCHEMA, {"use_dictionary": False}),
    "delta": (SCHEMA, {"use_dictionary": False, "column_encoding": {"code": "DELTA_BINARY_PACKED"}}),
}
FORMS = OTHER | AS_WRITTEN


def of_rows(*rows: dict[str, Any], schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    return parquet(pa.Table.from_pylist(list(rows), schema=schema), **options)


def test_files_of_any_castable_schema_are_adopted_and_lose_their_surplus_rows(area: SparkJobFeed) -> None:
    """Twice, beside a file that has the written schema: fingerprints do not depend on the file's own types.

    Each form has a date of its own, because a date is compared by itself.
    """
    days = {DAY + timedelta(days=number): name for number, name in enumerate(FORMS)}
    for version in (1, 2):
        files = {}
        for day, name in days.items():
            schema, options = FORMS[name]
            rows = [row(version, 1, day=day), row(version, 1, day=day, note="very great"), row(version, 2, day=day)]
            files[f"day={day}/a.parquet"] = of_rows(*rows, schema=schema, **options)
            files[f"day={day}/b.parquet"] = of_rows(row(version, 3, day=day))
        arrival = area.deliver(version, files)
        assert area.publish(arrival).refused == ()
        expected = [
            row(version, code, day=day, note="very great" if code == 1 else "plain")
            for day in days
            for code in (1, 2, 3)
        ]
        assert sorted(area.rows(), key=lambda r: (r["day"], r["code"])) == expected
        for day, name in days.items():
            entry = area.entry(day)
            assert (entry.plan, entry.ties, entry.changed) == ("adopt", 1, 0), name


def test_only_files_of_the_written_schema_are_copied_as_they_are(area: SparkJobFeed) -> None:
    files = {
        f"{FOLDER}/{name}.parquet": of_rows(row(1, code), schema=schema, **options)
        for code, (name, (schema, options)) in enumerate(FORMS.items())
    }
    area.publish(area.deliver(1, files))
    copies = [Path(file.path).stem for file in area.files().files if "/adopted-" in file.path]
    assert {sorted(FORMS)[int(name.rsplit("-", 1)[1])] for name in copies} == set(AS_WRITTEN)


def test_values_at_the_ends_of_a_files_own_type_are_read(area: SparkJobFeed) -> None:
    files = {
        f"{FOLDER}/big.parquet": of_rows(row(1, 4_000_000_000), schema=retyped(code=pa.uint32())),
        f"{FOLDER}/enum.parquet": claim_type(of_rows(row(1, 1, note="é"), store_schema=False), "note", 4),
        f"{FOLDER}/groups.parquet": of_rows(*(row(1, -code) for code in (1, 2, 3)), row_group_size=1),
    }
    assert area.publish(area.deliver(1, files)).refused == ()
    expected = [row(1, -3), row(1, -2), row(1, -1), row(1, 1, note="é"), row(1, 4_000_000_000)]
    assert sorted(area.rows(), key=lambda r: r["code"]) == expected


def test_bounds_in_a_footer_that_no_time_has_are_ignored(tmp_path: Path) -> None:
    """All columns could be packed, so the footers are read for the ranges of numbers."""
    micros = 1_234_567_890_123
    columns = (*PRODUCTS.columns, Column("seen_at", "TIMESTAMP"))
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), replace(PRODUCTS, columns=columns))
    for snapshot_id in (1, 2):
        seen_at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
        rows = [{**product_row(snapshot_id, number, snapshot_id), "seen_at": seen_at} for number in range(3)]
        file = parquet(pa.Table.from_pylist(rows, schema=arrow_schema(columns)))
        file = rename_in_footer(file, micros.to_bytes(8, "little"), (2**62).to_bytes(8, "little"))
        assert area.publish(area.deliver(snapshot_id, {f"date={FIRST}/a.parquet": file})).refused == ()
        assert area.rows() == rows


def test_a_file_that_the_job_wrote_is_copied_as_it_is(area: SparkJobFeed) -> None:
    area.plan = Plan.REWRITE
    area.publish(area.deliver(1, good(1)))
    area.plan = Plan.AUTO
    (file,) = area.files().files
    with storage.open_input(storage.join(area.data_uri(), file.path)) as stream:
        arrival = area.deliver(1, {FILE: bytes(stream.read())})
    area.publish(arrival)
    (copy,) = area.files().files
    assert "/adopted-" in copy.path


def test_files_of_any_name_that_a_load_job_can_name_are_read(area: SparkJobFeed) -> None:
    files = {f"{FOLDER}/{name}.parquet": of_rows(row(1, code)) for code, name in enumerate(NAMES)}
    assert area.publish(area.deliver(1, files)).refused == ()
    assert sorted(r["code"] for r in area.rows()) == list(range(len(NAMES)))


def test_leftovers_of_other_writers_are_ignored_as_spark_ignores_them(area: SparkJobFeed) -> None:
    rubbish = [
        *("_temporary/0/part-0.parquet", "_metadata", ".hidden/a.parquet", "_committed_123"),
        *(f"{FOLDER}/{name}" for name in ("_common_metadata", ".part-0.parquet.crc", "_temporary/a.parquet")),
        f"{FOLDER}/_part.parquet",
    ]
    assert area.publish(area.deliver(1, {**good(1), **dict.fromkeys(rubbish, b"rubbish")})).refused == ()
    assert len(area.rows()) == 3


def test_folders_below_the_snapshot_are_free_without_date_folders(area: SparkJobFeed) -> None:
    area.date_folders = False
    other = parquet(table(1, rows=1, code=9, day=date(2026, 3, 2)))
    area.publish(area.deliver(1, {"region=1/a/b.parquet": parquet(table(1)), "date=x/c.parquet": other}))
    assert sorted((r["day"], r["code"]) for r in area.rows()) == [(DAY, 0), (DAY, 1), (DAY, 2), (date(2026, 3, 2), 9)]


def test_keys_of_a_megabyte_are_keys_like_others(area: SparkJobFeed) -> None:
    names = ["é" * 500_000 + end for end in ("a", "b")]
    for version in (1, 2):
        area.publish(area.deliver(version, {FILE: of_rows(*(row(version, 1, name=name) for name in names))}))
    assert sorted((r["name"], r["version"]) for r in area.rows()) == [(name, 2) for name in names]


def test_many_tiny_files_are_published(area: SparkJobFeed) -> None:
    area.publish(area.deliver(1, {f"{FOLDER}/{number}.parquet": of_rows(row(1, number)) for number in range(200)}))
    assert sorted(r["code"] for r in area.rows()) == list(range(200))
