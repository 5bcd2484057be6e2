"""Deliveries with one mistake of the producer each."""

from __future__ import annotations

import gzip
import tempfile
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark import damage
from tests.spark.deliveries import (
    DAY,
    FILE,
    FOLDER,
    SCHEMA,
    BadDelivery,
    Files,
    MakeFiles,
    beside_a_good_file,
    changed,
    content,
    named,
    nullable,
    parquet,
    table,
    with_column,
    with_row,
    without_column,
    written,
)

THREE = range(3)
DATES = pa.array([DAY] * 3)


def _bad(name: str, make: MakeFiles, *said: str) -> BadDelivery:
    return BadDelivery(name, make, said)


def _values(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(values or [None] * 3, kind)


def _numbers(kind: pa.DataType) -> pa.Array:
    return pa.array(THREE, pa.int64()).cast(kind)


def _days(*days: int) -> pa.Array:
    return pa.array(days, pa.int32()).cast(pa.date32())


def _micros(zone: str | None, *micros: int) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz=zone))


def _structs(**fields: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def _no_text() -> pa.Array:
    """Three texts, the last of which is Latin-1."""
    return pa.StringArray.from_buffers(
        3, pa.py_buffer(pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]), pa.py_buffer(b"ab\xe9")
    )


def _too_many_digits() -> pa.Array:
    largest = (2**127 - 1).to_bytes(16, "little")
    return pa.Array.from_buffers(pa.decimal128(38, 9), 3, [None, pa.py_buffer(bytes(32) + largest)])


_NARROW_PARTS = pa.list_(pa.struct([("number", pa.int32()), ("price", pa.decimal128(38, 9))]))


def _claimed(column: str, values: pa.Array, converted_type: int, leaf: str | None = None, **decimal: int) -> MakeFiles:
    """The footer says that the values are of this ConvertedType. `leaf`: the nested column that is meant."""

    def make(version: int) -> Files:
        files = with_column(column, values, store_schema=False)(version)
        return {
            name: damage.claim_type(content, leaf or column, converted_type, **decimal)
            for name, content in files.items()
        }

    return make


def _joined(version: int) -> Files:
    """As `gcloud storage objects compose` does. Readers return the rows of the first file alone."""
    first, second = table(version), table(version, code=9)
    return {FILE: parquet(first, compression="none") + parquet(second, compression="none")}


def _duplicated_column(version: int) -> Files:
    return {FILE: parquet(table(version).append_column("note", pa.array(["x"] * 3)))}


def _enum(column: str, values: pa.Array) -> MakeFiles:
    def make(version: int) -> Files:
        return {
            name: damage.claim_enum(content, column)
            for name, content in with_column(column, values, store_schema=False)(version).items()
        }

    return make


def _lzo(version: int) -> Files:
    return {FILE: damage.claim_lzo(parquet(table(version), compression="brotli"))}


def _encrypted(version: int, *, plain_footer: bool) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        return {FILE: damage.encrypted(table(version), Path(folder), plain_footer=plain_footer)}


def _empty_files(version: int) -> Files:
    return {f"{FOLDER}/part-{n}.parquet": parquet(SCHEMA.empty_table()) for n in THREE}


def _gzip(version: int) -> Files:
    return {FILE: gzip.compress(parquet(table(version)))}


def _null_label(version: int) -> Files:
    label = nullable().field("info").type
    free = pa.struct([field.with_nullable(True) for field in label])
    schema = nullable().set(SCHEMA.get_field_index("info"), pa.field("info", free))
    return {FILE: parquet(table(version, schema=schema, info={"weight": 1.0, "label": None, "since": None}))}


_OUTSIDE = "values are outside [0001-01-01, 9999-12-31], BigQuery's range"
_UNREADABLE = "cannot be read as Parquet"
_NUMBERS = pa.array([1, 2, 3])
_WEIGHTS = _structs(weight=pa.array([1.0] * 3), label=pa.array(["l"] * 3), since=DATES)

FILES = [
    _bad("marker_without_files", lambda _: {}, "holds no data files [*.parquet]"),
    _bad("only_files_without_rows", _empty_files, "holds no row in [3] data files", "expected a complete snapshot"),
    _bad("file_of_no_bytes", content(b""), FILE, "is empty (0 bytes), expected a Parquet file"),
    _bad("truncated_file", changed(lambda file: file[:-200]), FILE, _UNREADABLE, "without its end"),
    _bad("head_of_a_file", changed(lambda file: file[:200]), FILE, _UNREADABLE, "without its end"),
    _bad("damaged_footer", changed(damage.damage_footer), FILE, _UNREADABLE),
    _bad("damaged_pages", changed(partial(damage.overwrite_pages, column="amount")), FILE, _UNREADABLE),
    _bad(
        "damaged_pages_of_a_nested_column",
        changed(partial(damage.overwrite_pages, column="parts.list.element.price")),
        FILE,
        _UNREADABLE,
    ),
    _bad(
        "page_that_fails_its_checksum",
        changed(partial(damage.flip_last_page_byte, column="amount"), compression="none", write_page_checksum=True),
        FILE,
        _UNREADABLE,
        "CRC",
    ),
    _bad("rubbish", content(bytes(range(200, 256)) * 40), FILE, _UNREADABLE),
    _bad("csv", content(b"day,name,code\n2026-03-01,north,1\n"), FILE, _UNREADABLE, "looks like a text file"),
    _bad("json", content(b'{"day": "2026-03-01", "code": 1}\n'), FILE, _UNREADABLE, "looks like a text file"),
    _bad("gzip", _gzip, FILE, _UNREADABLE, "looks like a gzip file"),
    _bad("avro", content(b"Obj\x01\x04\x14avro.codec"), FILE, _UNREADABLE, "looks like an Avro file"),
    _bad("encrypted_file", partial(_encrypted, plain_footer=False), FILE, _UNREADABLE, "an encrypted Parquet file"),
    _bad("encrypted_column", partial(_encrypted, plain_footer=True), FILE, _UNREADABLE, "an encrypted Parquet file"),
    _bad(
        "lzo",
        _lzo,
        FILE,
        _UNREADABLE,
        "LZO",
        "a Parquet file in another compression: use one of [GZIP, SNAPPY, UNCOMPRESSED, ZSTD]",
    ),
    _bad("brotli", written(compression="brotli"), FILE, "is compressed by [BROTLI], expected one of"),
    _bad("lz4", written(compression="lz4"), FILE, "is compressed by [LZ4], expected one of"),
    _bad(
        "encoding_that_spark_lacks",
        written(use_dictionary=False, use_byte_stream_split=["amount"]),
        FILE,
        "column [amount] is encoded by [BYTE_STREAM_SPLIT], expected one of",
    ),
    _bad("files_joined_byte_by_byte", _joined, FILE, "has [3] rows by its last footer", "land each by itself"),
    _bad("another_suffix", named(f"{FOLDER}/part-0.csv"), "is no data file, expected a name that ends in [.parquet]"),
    _bad("suffix_in_capitals", named(f"{FOLDER}/part-0.PARQUET"), "is no data file"),
]

PLACES = [
    _bad(
        "folder_of_no_date", named("day=2026-13-40/a.parquet"), "day=2026-13-40/a.parquet] is in no folder [day=YYYY-MM"
    ),
    _bad("folder_of_an_empty_date", named("day=/a.parquet"), "day=/a.parquet] is in no folder [day=YYYY-MM-DD]"),
    _bad("folder_of_another_column", named("date=2026-03-01/a.parquet"), "is in no folder [day=YYYY-MM-DD]"),
    _bad("date_in_other_digits", named("day=２０２６-03-01/a.parquet"), "is in no folder [day=YYYY-MM-DD]"),
    _bad("file_in_no_folder", named("a.parquet"), "/a.parquet] is in no folder [day=YYYY-MM-DD]"),
    _bad("folder_below_the_date", named(f"{FOLDER}/hour=1/a.parquet"), "is in no folder [day=YYYY-MM-DD]"),
    _bad("star_in_a_name", named(f"{FOLDER}/part-*.parquet"), "part-*.parquet] has a [*] in its name"),
    _bad(
        "line_break_in_a_name", named(f"{FOLDER}/a\nb.parquet"), r"a\nb.parquet] has a line break or control character"
    ),
]

COLUMNS = [
    _bad("column_missing", without_column("amount"), FILE, "column [amount] is missing, expected [FLOAT64]"),
    _bad("column_not_declared", with_column("color", pa.array(["r"] * 3)), FILE, "column [color] is not declared"),
    _bad("column_twice", _duplicated_column, FILE, "column [note] is in the file more than once"),
    _bad(
        "column_in_another_case",
        with_column("note", pa.array(["x"] * 3), "Note"),
        FILE,
        "column [Note] is not declared in the feed file: only its case differs from [note]",
        "column [note] is missing",
    ),
    _bad(
        "column_name_of_no_text",
        changed(partial(damage.rename_in_footer, name=b"note", other=b"n\xff\xfee")),
        FILE,
        _UNREADABLE,
    ),
    _bad(
        "int_became_string",
        with_column("code", pa.array(["1", "2", "3"])),
        FILE,
        "column [code] is [BYTE_ARRAY String], expected [INT64] (INT64 or INT32, unsigned up to 32 bits)",
    ),
    _bad(
        "int_became_float",
        with_column("code", _numbers(pa.float64())),
        FILE,
        "column [code] is [DOUBLE], expected [INT",
    ),
    _bad("int_became_decimal", with_column("code", _numbers(pa.decimal128(20))), FILE, "column [code] is [FIXED_LEN"),
    _bad(
        "int_became_unsigned_64", with_column("code", _numbers(pa.uint64())), FILE, "isSigned=false", "expected [INT64]"
    ),
    _bad(
        "column_without_any_type",
        with_column("code", pa.nulls(3)),
        FILE,
        "column [code] is [INT32 Null], expected [INT",
    ),
    _bad("float_became_int", with_column("amount", _NUMBERS), FILE, "column [amount] is [INT64], expected [FLOAT64]"),
    _bad("bool_became_int", with_column("flag", _NUMBERS), FILE, "column [flag] is [INT64], expected [BOOL] (BOOLEAN)"),
    _bad(
        "string_became_bytes",
        with_column("note", pa.array([b"x"] * 3)),
        FILE,
        "column [note] is [BYTE_ARRAY], expected",
    ),
    _bad("bytes_became_string", with_column("raw", pa.array(["x"] * 3)), FILE, "column [raw] is [BYTE_ARRAY String]"),
    _bad(
        "date_became_timestamp",
        with_column("day", DATES.cast(pa.timestamp("us", tz="UTC"))),
        FILE,
        "column [day] is [INT64 Timestamp",
        "expected [DATE] (INT32 annotated DATE)",
    ),
    _bad(
        "date_became_string", with_column("day", DATES.cast(pa.string())), FILE, "column [day] is [BYTE_ARRAY String]"
    ),
    _bad("date_became_int", with_column("opened", _days(1, 2, 3).cast(pa.int32())), FILE, "column [opened] is [INT32]"),
    _bad(
        "decimal_of_a_finer_scale",
        with_column("price", _values(pa.decimal128(38, 10))),
        FILE,
        "column [price] is [FIXED_LEN_BYTE_ARRAY Decimal(precision=38, scale=10)], expected [NUMERIC]",
    ),
    _bad(
        "decimal_of_more_digits", with_column("price", _values(pa.decimal128(38, 0))), FILE, "at most 29 digits before"
    ),
    _bad("decimal_became_float", with_column("price", _values(pa.float64())), FILE, "column [price] is [DOUBLE]"),
    _bad(
        "timestamp_of_96_bits",
        written(use_deprecated_int96_timestamps=True),
        FILE,
        "column [seen_at] is [INT96]",
        "expected [TIMESTAMP] (INT64 annotated TIMESTAMP, adjusted to UTC, milliseconds or microseconds)",
    ),
    _bad(
        "timestamp_without_utc",
        with_column("seen_at", _micros(None, 1, 2, 3)),
        FILE,
        "isAdjustedToUTC=false",
        "expected [TIMESTAMP]",
    ),
    _bad(
        "timestamp_of_nanoseconds", with_column("seen_at", _values(pa.timestamp("ns", tz="UTC"))), FILE, "nanoseconds"
    ),
    _bad(
        "datetime_with_utc",
        with_column("local_at", _micros("UTC", 1, 2, 3)),
        FILE,
        "isAdjustedToUTC=true",
        "expected [DATETIME]",
    ),
    _bad(
        "array_became_a_value",
        with_column("tags", pa.array(["a"] * 3)),
        FILE,
        "column [tags] is [BYTE_ARRAY String], expected [ARRAY of STRING]",
    ),
    _bad(
        "value_became_an_array",
        with_column("note", pa.array([["a"]] * 3)),
        FILE,
        "column [note] is [list<",
        "expected [S",
    ),
    _bad(
        "array_became_a_map",
        with_column("parts", _values(pa.map_(pa.string(), pa.int64()))),
        FILE,
        "column [parts] is [map",
    ),
    _bad(
        "struct_became_a_value", with_column("info", pa.array(["a"] * 3)), FILE, "column [info] is [BYTE_ARRAY String]"
    ),
    _bad(
        "nested_field_missing",
        with_column("info", _structs(weight=pa.array([1.0] * 3), label=pa.array(["l"] * 3))),
        FILE,
        "column [info] has fields ['weight', 'label'], expected ['weight', 'label', 'since']",
    ),
    _bad(
        "nested_field_not_declared",
        with_column(
            "info",
            _structs(**dict(zip(("weight", "label", "since", "more"), [*_WEIGHTS.flatten(), _NUMBERS], strict=True))),
        ),
        FILE,
        "column [info] has fields",
        "'more'",
    ),
    _bad(
        "nested_field_of_another_type",
        with_column("info", _structs(weight=pa.array([1.0] * 3), label=pa.array(["l"] * 3), since=_NUMBERS)),
        FILE,
        "column [info.since] is [INT64], expected [DATE]",
    ),
    _bad(
        "one_of_two_files_lacks_a_column", beside_a_good_file(without_column("flag")), FILE, "column [flag] is missing"
    ),
    _bad(
        "one_of_two_files_has_another_type",
        beside_a_good_file(with_column("code", _numbers(pa.float64()))),
        FILE,
        "column [code] is [DOUBLE]",
    ),
]

VALUES = [
    *[
        _bad(
            f"null_in_key_{name}", with_row(**{name: None}), FILE, f"column [{name}]: 1 rows are [NULL], expected none"
        )
        for name in ("day", "name", "opened", "code")
    ],
    _bad("null_in_a_required_column", with_row(flag=None), FILE, "column [flag]: 1 rows are [NULL], expected none"),
    _bad(
        "null_in_a_required_nested_field", _null_label, FILE, "column [info.label]: 1 values are [NULL], expected none"
    ),
    _bad(
        "date_after_tomorrow",
        lambda version: {"day=2030-01-02/a.parquet": parquet(table(version, rows=1, day=date(2030, 1, 2)))},
        "column [day]: 1 rows have a date up to [2030-01-02], expected at most [2030-01-01]",
    ),
    _bad(
        "date_of_another_folder",
        with_row(day=date(2026, 3, 2)),
        FILE,
        "column [day]: 1 rows have another date such as [2026-03-02], expected its folder's [2026-03-01]",
    ),
    _bad(
        "date_that_no_calendar_has",
        with_column("day", _days(20_000, 20_000, 2**31 - 1)),
        FILE,
        f"column [day]: 1 {_OUTSIDE}",
    ),
    _bad(
        "date_before_the_first_year",
        with_column("day", _days(20_000, -(10**6), -(10**6))),
        FILE,
        f"column [day]: 2 {_OUTSIDE}",
    ),
    _bad(
        "snapshot_id_of_another",
        with_row(version=777),
        FILE,
        "column [version]: 1 rows have another id, expected the fold",
    ),
    _bad("snapshot_id_below_zero", with_row(version=-1), FILE, "column [version]: 1 rows have another id"),
    _bad("snapshot_id_null", with_row(version=None), FILE, "column [version]: 1 rows are [NULL], expected none"),
    _bad(
        "value_date_out_of_range", with_column("opened", _days(1, 2, 2932897)), FILE, f"column [opened]: 1 {_OUTSIDE}"
    ),
    _bad(
        "timestamp_out_of_range",
        with_column("seen_at", _micros("UTC", 0, 1, 253402300800000000)),
        FILE,
        f"column [seen_at]: 1 {_OUTSIDE}",
    ),
    _bad(
        "datetime_out_of_range",
        with_column("local_at", _micros(None, 0, -62135596800000001, -(2**63) + 1)),
        FILE,
        f"column [local_at]: 2 {_OUTSIDE}",
    ),
    _bad("text_of_another_encoding", with_column("note", _no_text()), FILE, "column [note]: 1 values are not UTF-8"),
    _bad("key_of_another_encoding", with_column("name", _no_text()), FILE, "column [name]: 1 values are not UTF-8"),
    _bad(
        "enum_of_another_encoding",
        _enum("note", _no_text()),
        FILE,
        "column [note]: 1 values cannot be cast to [STRING], the first in row [3]",
    ),
    _bad(
        "key_as_enum_of_another_encoding",
        _enum("name", _no_text()),
        FILE,
        "column [name]: 1 values cannot be cast to [STRING]",
    ),
    _bad(
        "nested_text_of_another_encoding",
        with_column("info", _structs(weight=pa.array([1.0] * 3), label=_no_text(), since=DATES)),
        FILE,
        "column [info.label]: 1 values are not UTF-8",
    ),
    _bad(
        "nested_date_out_of_range",
        with_column(
            "info", _structs(weight=pa.array([1.0] * 3), label=pa.array(["l"] * 3), since=_days(1, 2, -719163))
        ),
        FILE,
        f"column [info.since]: 1 {_OUTSIDE}",
    ),
    _bad("null_element_of_an_array", with_row(tags=["a", None, None]), FILE, "column [tags]: 2 elements are [NULL]"),
    _bad(
        "null_struct_in_an_array", with_row(parts=[None]), FILE, "column [parts]: 1 elements are [NULL], expected none"
    ),
    _bad(
        "number_of_too_many_digits",
        with_column("price", _too_many_digits()),
        FILE,
        "column [price]: 1 values have more digits than the [38]",
    ),
    _bad(
        "numbers_outside_unsigned_8",
        _claimed("code", pa.array([-1, 256, 255], pa.int32()), 11),
        FILE,
        "column [code]: 2 values are outside [0, 255], the range of the file's own type",
    ),
    _bad(
        "numbers_outside_signed_16",
        _claimed("code", pa.array([-32769, -32768, 32768], pa.int32()), 16),
        FILE,
        "column [code]: 2 values are outside [-32768, 32767]",
    ),
    _bad(
        "nested_number_outside_signed_8",
        _claimed(
            "parts",
            pa.array([[{"number": 300, "price": None}], [], [{"number": -128, "price": None}]], _NARROW_PARTS),
            15,
            "number",
        ),
        FILE,
        "column [parts.number]: 1 values are outside [-128, 127]",
    ),
    _bad(
        "decimal_of_fixed_20_bytes",
        _claimed("price", pa.array([bytes(20)] * 3, pa.binary(20)), 5, scale=9, precision=38),
        FILE,
        "column [price] is [FIXED_LEN_BYTE_ARRAY Decimal(precision=38, scale=9)] in [20] bytes, expected at most [16]",
    ),
    _bad(
        "decimal_of_17_bytes",
        _claimed("price", pa.array([bytes(1), bytes(17), None]), 5, scale=2, precision=18),
        FILE,
        "it looks like a Parquet file with a DECIMAL in no byte or in more than 16",
    ),
    _bad(
        "value_larger_than_a_row",
        with_row(note="x" * 50_000_001),
        FILE,
        "column [note]: 1 values are larger than [50000000]",
    ),
]


def _rows_behind_a_page_without_values(version: int) -> bytes:
    return parquet(table(version, rows=1, tags=[], parts=[]), data_page_size=1)


# Files that older versions of pyarrow read, but not that of the lock.
UNREAD = [
    _bad(
        "rows_behind_a_page_without_values",
        lambda version: {FILE: _rows_behind_a_page_without_values(version)},
        FILE,
        "has [1] rows by its footer, but [0] could be read",
    ),
    _bad(
        "fields_behind_a_page_without_values",
        lambda version: {
            FILE: parquet(table(version, rows=1), data_page_size=1, use_dictionary=["parts.list.element.price"])
        },
        FILE,
        "it looks like a Parquet file with data pages without values",
    ),
]
_ARE_READ = any(True for _ in pq.ParquetFile(pa.BufferReader(_rows_behind_a_page_without_values(1))).iter_batches())

CASES = [*FILES, *PLACES, *COLUMNS, *VALUES, *([] if _ARE_READ else UNREAD)]
