"""Differences between producers that are accepted: other types that hold the declared ones, other names, leftovers."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.manifest_checks import check_duplicate_keys
from dedup_clone.contract.request import URIS_PER_JOB, Plan
from dedup_clone.settings.check_settings import CheckSettings, DuplicateKeys
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.landing.delivery_validation import validate_deliveries
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.shared.damaged_parquet import claim_type
from tests.shared.typed_deliveries import DAY, FILE, FOLDER, SCHEMA, TYPED, good, nullable, parquet, row, table
from tests.spark.object_names import NAMES

pytestmark = pytest.mark.spark

BIG = 4_000_000_000


@pytest.fixture
def area(spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), TYPED)


def retyped(**kinds: pa.DataType) -> pa.Schema:
    schema = SCHEMA
    for name, kind in kinds.items():
        schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
    return schema


PART = pa.struct([("number", pa.int64()), ("price", pa.decimal128(38, 9))])
INFO = pa.struct([("since", pa.date32()), ("label", pa.string()), ("weight", pa.float32())])
REQUIRED = pa.schema([field.with_nullable(False) for field in SCHEMA])
# Name -> schema and writer's options of a file with one row.
FORMS: dict[str, tuple[pa.Schema, dict[str, Any]]] = {
    "int_8": (retyped(code=pa.int8()), {}),
    "int_16": (retyped(code=pa.int16()), {}),
    "int_32": (retyped(code=pa.int32(), version=pa.int32()), {}),
    "unsigned_8": (retyped(code=pa.uint8()), {}),
    "unsigned_16": (retyped(code=pa.uint16()), {}),
    "unsigned_32": (retyped(code=pa.uint32()), {}),
    "milliseconds": (retyped(seen_at=pa.timestamp("ms", tz="Asia/Tokyo"), local_at=pa.timestamp("ms")), {}),
    "short_decimal": (retyped(price=pa.decimal128(10, 2)), {}),
    "decimal_in_int": (retyped(price=pa.decimal128(7, 2)), {"store_decimal_as_integer": True}),
    "float_32": (retyped(amount=pa.float32()), {}),
    "dictionaries": (
        retyped(name=pa.dictionary(pa.int32(), pa.string()), note=pa.dictionary(pa.int8(), pa.string())),
        {},
    ),
    "large_types": (retyped(note=pa.large_string(), raw=pa.large_binary(), tags=pa.large_list(pa.large_string())), {}),
    "fixed_sizes": (retyped(raw=pa.binary(2), parts=pa.list_(PART, 1)), {}),
    "date_64": (retyped(day=pa.date64(), opened=pa.date64()), {}),
    "seconds_as_duration": (retyped(code=pa.duration("us")), {}),
    "nested_order": (retyped(info=INFO), {}),
    "other_order": (pa.schema(list(reversed(list(SCHEMA)))), {}),
    "nullable_everywhere": (nullable(), {}),
    "required_everywhere": (REQUIRED, {}),
    "items": (retyped(tags=pa.list_(pa.string())), {"use_compliant_nested_type": False}),
    "gzip": (SCHEMA, {"compression": "gzip"}),
    "zstd": (SCHEMA, {"compression": "zstd"}),
    "uncompressed": (SCHEMA, {"compression": "none"}),
    "no_statistics": (SCHEMA, {"write_statistics": False, "store_schema": False}),
    "pages_of_version_2": (SCHEMA, {"data_page_version": "2.0"}),
    "checksums": (SCHEMA, {"write_page_checksum": True}),
    "plain": (SCHEMA, {"use_dictionary": False}),
    "delta": (SCHEMA, {"use_dictionary": False, "column_encoding": {"code": "DELTA_BINARY_PACKED"}}),
}
OF_WRITTEN_FORM = {"gzip", "zstd", "uncompressed", "no_statistics", "pages_of_version_2", "checksums", "plain", "delta"}
# Arrow's schema is a writer's hint: Parquet's own types are the declared ones.
OF_WRITTEN_FORM |= {"dictionaries", "large_types", "seconds_as_duration", "date_64"}
PRODUCT = {"date": DAY, "product_id": 1, "store_id": 1, "attribute_id": 1, "attr_value": 1, "update_id": 1}


def one_row(schema: pa.Schema, code: int, **changes: Any) -> pa.Table:
    return pa.Table.from_pylist([row(1, code, **changes)], schema=schema)


@pytest.mark.exhaustive
def test_files_of_other_schemas_in_one_delivery_are_read_as_declared(area: SparkJobFeed) -> None:
    files = {
        f"{FOLDER}/{name}.parquet": parquet(one_row(schema, code), **options)
        for code, (name, (schema, options)) in enumerate(FORMS.items())
    }
    files[f"{FOLDER}/above_int_32.parquet"] = parquet(one_row(retyped(code=pa.uint32()), BIG))
    files[f"{FOLDER}/no_rows.parquet"] = parquet(SCHEMA.empty_table())
    files[f"{FOLDER}/groups.parquet"] = parquet(
        pa.Table.from_pylist([row(1, -code) for code in (1, 2, 3)], SCHEMA), row_group_size=1
    )
    candidate = area.publish(area.deliver(1, files))
    assert candidate.refused == ()
    expected = [row(1, code) for code in [-3, -2, -1, *range(len(FORMS)), BIG]]
    assert sorted(area.rows(), key=lambda r: r["code"]) == expected


def test_enum_that_is_text_is_read_as_text(area: SparkJobFeed) -> None:
    content = claim_type(parquet(one_row(SCHEMA, 1, note="é")), "note", 4)
    candidate = area.publish(area.deliver(1, {f"{FOLDER}/part-0.parquet": content}))
    assert candidate.refused == ()
    assert area.rows() == [row(1, 1, note="é")]


@pytest.mark.parametrize("plan", [Plan.AUTO, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def test_files_of_any_name_that_a_load_job_can_name_are_read(area: SparkJobFeed, plan: Plan) -> None:
    area.plan = plan
    files = {f"{FOLDER}/{name}.parquet": parquet(one_row(SCHEMA, code)) for code, name in enumerate(NAMES)}
    candidate = area.publish(area.deliver(1, files))
    assert candidate.refused == ()
    assert sorted(r["code"] for r in area.rows()) == list(range(len(NAMES)))


def test_leftovers_of_other_writers_are_ignored_as_spark_ignores_them(area: SparkJobFeed) -> None:
    rubbish = [
        "_temporary/0/part-0.parquet",
        "_metadata",
        f"{FOLDER}/_common_metadata",
        f"{FOLDER}/.part-0.parquet.crc",
    ]
    rubbish += [f"{FOLDER}/_temporary/a.parquet", ".hidden/a.parquet", f"{FOLDER}/_part.parquet", "_committed_123"]
    candidate = area.publish(area.deliver(1, {**good(1), **dict.fromkeys(rubbish, b"rubbish")}))
    assert candidate.refused == ()
    assert len(area.rows()) == 3


def test_folders_below_the_snapshot_are_free_without_date_folders(area: SparkJobFeed) -> None:
    area.date_folders = False
    other = parquet(table(1, rows=1, code=9, day=date(2026, 3, 2)))
    area.publish(area.deliver(1, {"region=1/a/b.parquet": parquet(table(1)), "date=x/c.parquet": other}))
    assert sorted((r["day"], r["code"]) for r in area.rows()) == [(DAY, 0), (DAY, 1), (DAY, 2), (date(2026, 3, 2), 9)]


def test_keys_of_a_megabyte_are_keys_like_others(area: SparkJobFeed) -> None:
    names = ["é" * 500_000 + end for end in ("a", "b")]
    for version in (1, 2):
        rows = [row(version, 1, name=name) for name in names]
        area.publish(area.deliver(version, {f"{FOLDER}/a.parquet": parquet(pa.Table.from_pylist(rows, SCHEMA))}))
    assert sorted((r["name"], r["version"]) for r in area.rows()) == [(name, 2) for name in names]


def _has_written_schema(area: SparkJobFeed, content: bytes) -> bool:
    arrival = area.deliver(1, {f"{FOLDER}/a.parquet": content})
    (validated,) = validate_deliveries(area.request([arrival]), (arrival,), None, FanOut(area.spark)).applied
    return validated.files[0].has_written_schema


def test_only_files_of_the_written_schema_have_it(area: SparkJobFeed) -> None:
    files = {
        f"{FOLDER}/{name}.parquet": parquet(one_row(schema, code), **options)
        for code, (name, (schema, options)) in enumerate(FORMS.items())
    }
    arrival = area.deliver(1, files)
    (validated,) = validate_deliveries(area.request([arrival]), (arrival,), None, FanOut(area.spark)).applied
    assert {Path(file.file.uri).stem for file in validated.files if file.has_written_schema} == OF_WRITTEN_FORM


def test_a_file_of_any_castable_schema_is_adopted_and_loses_its_surplus_rows(area: SparkJobFeed) -> None:
    """Twice, beside a file that has the written schema: fingerprints do not depend on the file's own types.

    Each form has a date of its own, because a date is compared by itself.
    """
    days = {DAY + timedelta(days=number): form for number, form in enumerate(FORMS.values())}
    for version in (1, 2):
        files = {}
        for day, (schema, options) in days.items():
            rows = [
                row(version, code, day=day, note=note) for code, note in [(1, "plain"), (1, "very great"), (2, "plain")]
            ]
            files[f"day={day}/a.parquet"] = parquet(pa.Table.from_pylist(rows, schema), **options)
            files[f"day={day}/b.parquet"] = parquet(pa.Table.from_pylist([row(version, 3, day=day)], SCHEMA))
        assert area.publish(area.deliver(version, files)).refused == ()
        found = sorted((r["day"], r["code"], r["note"], r["version"]) for r in area.rows())
        assert found == [
            (day, code, note, version) for day in days for code, note in [(1, "very great"), (2, "plain"), (3, "plain")]
        ]
        for day, name in zip(days, FORMS, strict=True):
            entry = area.entry(day)
            assert (entry.plan, entry.ties, entry.changed) == ("adopt", 1, 0), name


def test_file_that_the_job_wrote_has_the_written_schema(area: SparkJobFeed) -> None:
    area.publish(area.deliver(1, good(1)))
    (file,) = area.files().files
    with storage.open_input(storage.join(area.data_uri(), file.path)) as stream:
        content = stream.read()
    assert _has_written_schema(area, content)


@pytest.mark.parametrize("plan", [Plan.AUTO, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def test_duplicate_keys_are_published_once_and_tolerated_only_by_setting(area: SparkJobFeed, plan: Plan) -> None:
    area.plan = plan
    rows = [row(1, 1, note="a"), row(1, 1, note="b"), row(1, 2)]
    candidate = area.publish(area.deliver(1, {FILE: parquet(pa.Table.from_pylist(rows, SCHEMA))}))
    assert [(r["code"], r["note"]) for r in sorted(area.rows(), key=lambda r: r["code"])] == [(1, "b"), (2, "plain")]
    for setting, level in ((DuplicateKeys.WARN, Level.WARN), (DuplicateKeys.FAIL, Level.FAIL)):
        verdict = check_duplicate_keys(candidate, CheckSettings(duplicate_keys=setting))
        assert verdict.level is level


@pytest.mark.exhaustive
def test_more_tiny_files_than_a_job_can_name_are_validated_as_one_delivery(spark: SparkSession, tmp_path: Path) -> None:
    """All files have the same content, so that the test writes them quickly."""
    area = SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    arrival = area.land(1, [PRODUCT])
    content = Path(area.uri(arrival.objects[0].name))
    for number in range(URIS_PER_JOB):
        os.link(content, content.with_name(f"tiny-{number}.parquet"))
    arrival = area.arrive(1)
    (validated,) = validate_deliveries(area.request([arrival]), (arrival,), None, FanOut(area.spark)).applied
    assert validated.rows_by_date == {DAY: URIS_PER_JOB + 1}


@pytest.mark.parametrize("plan", [Plan.AUTO, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def test_a_thousand_tiny_files_are_published(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    area = SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=plan)
    schema = arrow_schema(PRODUCTS.columns)
    for number in range(1000):
        rows = pa.Table.from_pylist([{**PRODUCT, "product_id": number}], schema)
        area.put(1, f"date={DAY}/tiny-{number}.parquet", rows)
    assert area.publish(area.arrive(1)).refused == ()
    assert sorted(r["product_id"] for r in area.rows()) == list(range(1000))
