"""Lists deliveries with one mistake of the producer each, for all that refuse deliveries.

The Spark job refuses all of them. The DAG refuses those of which names, sizes and footers show it before Spark starts;
engines in SQL refuse what BigQuery's types and their own queries show.
"""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.shared import damaged_parquet
from tests.shared.typed_deliveries import (
    DAY,
    FILE,
    FOLDER,
    SCHEMA,
    Files,
    MakeFiles,
    beside_a_good_file,
    changed,
    named,
    nullable,
    parquet,
    table,
    with_column,
    with_row,
    without_column,
    written,
)


@dataclass(frozen=True)
class BadDelivery:
    """`make`: the files of the delivery of a snapshot, by name below its folder.

    `said`: texts that each refusal contains: where the fault is, how many rows have it, what was expected. `early`:
    whether the DAG refuses the delivery before Spark starts. `sql`: whether engines in SQL refuse it.
    """

    name: str
    make: MakeFiles
    said: tuple[str, ...]
    early: bool = False
    sql: bool = False


THREE = range(3)
DATES = pa.array([DAY] * 3)
ENUM, DECIMAL, UINT8, INT8, INT16 = 4, 5, 11, 15, 16  # ConvertedType of parquet.thrift


def _bytes(content: bytes) -> MakeFiles:
    return lambda _: {FILE: content}


def _values(kind: pa.DataType) -> pa.Array:
    return pa.array([None] * 3, kind)


def _numbers(kind: pa.DataType) -> pa.Array:
    return pa.array(THREE, pa.int64()).cast(kind)


def _small(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32())


def _days(*days: int) -> pa.Array:
    return _small(*days).cast(pa.date32())


def _micros(zone: str | None, *micros: int) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz=zone))


def _info(**fields: pa.Array) -> pa.Array:
    """Three structs; `fields` take the place of the declared ones, or are added."""
    known = {"weight": pa.array([1.0] * 3), "label": pa.array(["l"] * 3), "since": DATES, **fields}
    present = {name: values for name, values in known.items() if values is not None}
    return pa.StructArray.from_arrays(list(present.values()), list(present))


def _latin_1() -> pa.Array:
    """Three texts, the last of which is not UTF-8."""
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    return pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(b"ab\xe9"))


def _too_many_digits() -> pa.Array:
    largest = (2**127 - 1).to_bytes(16, "little")
    return pa.Array.from_buffers(pa.decimal128(38, 9), 3, [None, pa.py_buffer(bytes(32) + largest)])


def _claimed(column: str, values: pa.Array, converted_type: int, leaf: str | None = None, **decimal: int) -> MakeFiles:
    """The footer says that the values are of this ConvertedType. `leaf`: the nested column that is meant."""

    def make(version: int) -> Files:
        content = with_column(column, values, store_schema=False)(version)[FILE]
        return {FILE: damaged_parquet.claim_type(content, leaf or column, converted_type, **decimal)}

    return make


def _joined(version: int) -> Files:
    """As `gcloud storage objects compose` does. Readers return the rows of the first file alone."""
    first, second = table(version), table(version, code=9)
    return {FILE: parquet(first, compression="none") + parquet(second, compression="none")}


def _column_twice(version: int) -> Files:
    return {FILE: parquet(table(version).append_column("note", pa.array(["x"] * 3)))}


def _lzo(version: int) -> Files:
    return {FILE: damaged_parquet.claim_lzo(parquet(table(version), compression="brotli"))}


def _encrypted(version: int, *, plain_footer: bool) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        return {FILE: damaged_parquet.encrypted(table(version), Path(folder), plain_footer=plain_footer)}


def _empty_files(version: int) -> Files:
    return {f"{FOLDER}/part-{n}.parquet": parquet(SCHEMA.empty_table()) for n in THREE}


def _null_label(version: int) -> Files:
    free = pa.struct([field.with_nullable(True) for field in nullable().field("info").type])
    schema = nullable().set(SCHEMA.get_field_index("info"), pa.field("info", free))
    return {FILE: parquet(table(version, schema=schema, info={"weight": 1.0, "label": None, "since": None}))}


def _two_years_ahead(version: int) -> Files:
    return {"day=2030-01-02/a.parquet": parquet(table(version, rows=1, day=date(2030, 1, 2)))}


BROKEN_PAGES = partial(damaged_parquet.overwrite_pages, column="amount")
BROKEN_NESTED_PAGES = partial(damaged_parquet.overwrite_pages, column="parts.list.element.price")
FLIPPED_BIT = partial(damaged_parquet.flip_last_page_byte, column="amount")
NO_TEXT_IN_FOOTER = partial(damaged_parquet.rename_in_footer, name=b"note", other=b"n\xff\xfee")

# What the footer does not show is refused by those that read the pages.
_UNREADABLE: list[tuple[str, MakeFiles]] = [
    ("truncated_file", changed(lambda file: file[:-200])),
    ("head_of_a_file", changed(lambda file: file[:200])),
    ("damaged_footer", changed(damaged_parquet.damage_footer)),
    ("rubbish", _bytes(bytes(range(200, 256)) * 40)),
    ("csv", _bytes(b"day,name,code\n2026-03-01,north,1\n")),
    ("json", _bytes(b'{"day": "2026-03-01", "code": 1}\n')),
    ("gzip", lambda version: {FILE: gzip.compress(parquet(table(version)))}),
    ("avro", _bytes(b"Obj\x01\x04\x14avro.codec")),
    ("encrypted_file", partial(_encrypted, plain_footer=False)),
    ("column_name_of_no_text", changed(NO_TEXT_IN_FOOTER)),
]
FILES = [
    BadDelivery("marker_without_files", lambda _: {}, ("holds no data files [*.parquet]",), early=True, sql=True),
    BadDelivery("only_files_without_rows", _empty_files, ("holds no row in [3] data files",), sql=True),
    BadDelivery("file_of_no_bytes", _bytes(b""), (FILE, "is empty (0 bytes)"), early=True, sql=True),
    *[BadDelivery(name, make, (FILE, "cannot be read as Parquet"), early=True, sql=True) for name, make in _UNREADABLE],
    BadDelivery("damaged_pages", changed(BROKEN_PAGES), (FILE, "cannot be read"), sql=True),
    BadDelivery("damaged_pages_of_a_nested_column", changed(BROKEN_NESTED_PAGES), (FILE, "cannot be read"), sql=True),
    BadDelivery(
        "page_that_fails_its_checksum",
        changed(FLIPPED_BIT, compression="none", write_page_checksum=True),
        (FILE, "cannot be read as Parquet", "CRC"),
    ),
    BadDelivery("encrypted_column", partial(_encrypted, plain_footer=True), (FILE, "cannot be read"), sql=True),
    BadDelivery("lzo", _lzo, (FILE, "cannot be read", "LZO"), sql=True),
    BadDelivery("brotli", written(compression="brotli"), (FILE, "is compressed by [BROTLI]")),
    BadDelivery("lz4", written(compression="lz4"), (FILE, "is compressed by [LZ4]")),
    BadDelivery(
        "encoding_that_spark_lacks",
        written(use_dictionary=False, use_byte_stream_split=["amount"]),
        (FILE, "column [amount] is encoded by [BYTE_STREAM_SPLIT]"),
    ),
    BadDelivery("files_joined_byte_by_byte", _joined, (FILE, "has [3] rows by its last footer")),
]

_PLACES = [
    ("another_suffix", f"{FOLDER}/part-0.csv", "part-0.csv] is no data file"),
    ("suffix_in_capitals", f"{FOLDER}/part-0.PARQUET", "part-0.PARQUET] is no data file"),
    ("folder_of_no_date", "day=2026-13-40/a.parquet", "day=2026-13-40/a.parquet] is in no folder [day=YYYY-MM-DD]"),
    ("folder_of_an_empty_date", "day=/a.parquet", "day=/a.parquet] is in no folder [day=YYYY-MM-DD]"),
    ("folder_of_another_column", "date=2026-03-01/a.parquet", "is in no folder [day=YYYY-MM-DD]"),
    ("date_in_other_digits", "day=２０２６-03-01/a.parquet", "is in no folder [day=YYYY-MM-DD]"),
    ("file_in_no_folder", "a.parquet", "/a.parquet] is in no folder [day=YYYY-MM-DD]"),
    ("folder_below_the_date", f"{FOLDER}/hour=1/a.parquet", "is in no folder [day=YYYY-MM-DD]"),
    ("star_in_a_name", f"{FOLDER}/part-*.parquet", "part-*.parquet] has a [*] in its name"),
    ("line_break_in_a_name", f"{FOLDER}/a\nb.parquet", r"a\nb.parquet] has a line break or control character"),
]
PLACES = [BadDelivery(name, named(path), (said,), early=True, sql=True) for name, path, said in _PLACES]


def _retyped(
    name: str, column: str, values: pa.Array, expected: str, *, early: bool = True, sql: bool = True
) -> BadDelivery:
    """A column has values of a type that does not hold the declared one."""
    said = (FILE, f"column [{column}] is [", f"expected [{expected}]")
    return BadDelivery(name, with_column(column, values), said, early, sql)


def _seen_by_all(name: str, make: MakeFiles, *said: str) -> BadDelivery:
    """A fault of a file that everybody finds."""
    return BadDelivery(name, make, (FILE, *said), early=True, sql=True)


TEXTS, MAPS = pa.array(["x"] * 3), _values(pa.map_(pa.string(), pa.int64()))
OTHER_CASE = "column [Note] is not declared in the feed file: only its case differs from [note]"
COLUMNS = [
    _seen_by_all("column_missing", without_column("amount"), "column [amount] is missing, expected [FLOAT64]"),
    _seen_by_all("column_not_declared", with_column("color", TEXTS), "column [color] is not declared"),
    BadDelivery("column_twice", _column_twice, (FILE, "column [note] is in the file more than once")),
    _seen_by_all("column_in_another_case", with_column("note", TEXTS, "Note"), OTHER_CASE),
    _retyped("int_became_string", "code", pa.array(["1", "2", "3"]), "INT64"),
    _retyped("int_became_float", "code", _numbers(pa.float64()), "INT64"),
    _retyped("int_became_decimal", "code", _numbers(pa.decimal128(20)), "INT64"),
    _retyped("int_became_unsigned_64", "code", _numbers(pa.uint64()), "INT64", sql=False),
    _retyped("column_without_any_type", "code", pa.nulls(3), "INT64", sql=False),
    _retyped("float_became_int", "amount", pa.array([1, 2, 3]), "FLOAT64"),
    _retyped("bool_became_int", "flag", pa.array([1, 2, 3]), "BOOL"),
    _retyped("string_became_bytes", "note", pa.array([b"x"] * 3), "STRING"),
    _retyped("bytes_became_string", "raw", pa.array(["x"] * 3), "BYTES"),
    _retyped("date_became_timestamp", "day", DATES.cast(pa.timestamp("us", tz="UTC")), "DATE"),
    _retyped("date_became_string", "day", DATES.cast(pa.string()), "DATE"),
    _retyped("date_became_int", "opened", _days(1, 2, 3).cast(pa.int32()), "DATE"),
    _retyped("decimal_of_a_finer_scale", "price", _values(pa.decimal128(38, 10)), "NUMERIC", sql=False),
    _retyped("decimal_of_more_digits", "price", _values(pa.decimal128(38, 0)), "NUMERIC", sql=False),
    _retyped("decimal_became_float", "price", _values(pa.float64()), "NUMERIC"),
    _retyped("timestamp_without_utc", "seen_at", _micros(None, 1, 2, 3), "TIMESTAMP"),
    _retyped("timestamp_of_nanoseconds", "seen_at", _values(pa.timestamp("ns", tz="UTC")), "TIMESTAMP", sql=False),
    BadDelivery(
        "timestamp_of_96_bits",
        written(use_deprecated_int96_timestamps=True),
        (FILE, "column [seen_at] is [INT96], expected [TIMESTAMP]"),
        early=True,
    ),
    _retyped("datetime_with_utc", "local_at", _micros("UTC", 1, 2, 3), "DATETIME"),
    _retyped("array_became_a_value", "tags", pa.array(["a"] * 3), "ARRAY of STRING", early=False),
    _retyped("value_became_an_array", "note", pa.array([["a"]] * 3), "STRING", early=False),
    _retyped("array_became_a_map", "parts", MAPS, "ARRAY of STRUCT", early=False, sql=False),
    _retyped("struct_became_a_value", "info", pa.array(["a"] * 3), "STRUCT", early=False),
    BadDelivery(
        "nested_field_missing", with_column("info", _info(since=None)), (FILE, "column [info", "since"), sql=True
    ),
    BadDelivery(
        "nested_field_not_declared",
        with_column("info", _info(more=pa.array([1, 2, 3]))),
        (FILE, "column [info", "more"),
        sql=True,
    ),
    BadDelivery(
        "nested_field_of_another_type",
        with_column("info", _info(since=pa.array([1, 2, 3]))),
        (FILE, "column [info.since] is [INT64], expected [DATE]"),
        sql=True,
    ),
    _seen_by_all(
        "one_of_two_files_lacks_a_column", beside_a_good_file(without_column("flag")), "column [flag] is missing"
    ),
    _seen_by_all(
        "one_of_two_files_has_another_type",
        beside_a_good_file(with_column("code", _numbers(pa.float64()))),
        "column [code] is [",
    ),
]

_NARROW_PARTS = pa.list_(pa.struct([("number", pa.int32()), ("price", pa.decimal128(38, 9))]))
_NUMBERED_PARTS = pa.array([[{"number": 300, "price": None}], [], [{"number": -128, "price": None}]], _NARROW_PARTS)


def _wrong_values(column: str, name: str, make: MakeFiles, said: str, *, sql: bool = False) -> BadDelivery:
    return BadDelivery(name, make, (FILE, f"column [{column}]: {said}"), sql=sql)


def _of_values(column: str, name: str, values: pa.Array, said: str, claimed: int | None = None) -> BadDelivery:
    """The column has these values, which the footer calls values of the ConvertedType `claimed`."""
    make = with_column(column, values) if claimed is None else _claimed(column, values, claimed)
    return _wrong_values(column, name, make, said)


OUTSIDE_THE_CALENDAR = "values are outside [0001-01-01, 9999-12-31]"
AFTER_9999, BEFORE_1, LOWEST = 253_402_300_800_000_000, -62_135_596_800_000_001, -(2**63) + 1  # microseconds
# The column, the number of rows or values, and what is wrong with them.
VALUES = [
    *[
        _wrong_values(key, f"null_in_key_{key}", with_row(**{key: None}), "1 rows are [NULL]", sql=True)
        for key in ("day", "name", "opened", "code")
    ],
    _wrong_values("flag", "null_in_a_required_column", with_row(flag=None), "1 rows are [NULL]", sql=True),
    BadDelivery("null_in_a_required_nested_field", _null_label, (FILE, "column [info.label]: 1 ", "[NULL]"), sql=True),
    BadDelivery(
        "date_after_tomorrow", _two_years_ahead, ("column [day]: 1 rows have a date up to [2030-01-02]",), sql=True
    ),
    _wrong_values(
        "day",
        "date_of_another_folder",
        with_row(day=date(2026, 3, 2)),
        "1 rows have another date such as [2026-03-02], expected its folder's [2026-03-01]",
        sql=True,
    ),
    _of_values("day", "date_that_no_calendar_has", _days(20_000, 20_000, 2**31 - 1), f"1 {OUTSIDE_THE_CALENDAR}"),
    _of_values("day", "date_before_the_first_year", _days(20_000, -(10**6), -(10**6)), f"2 {OUTSIDE_THE_CALENDAR}"),
    _wrong_values("version", "snapshot_id_of_another", with_row(version=777), "1 rows have another id", sql=True),
    _wrong_values("version", "snapshot_id_below_zero", with_row(version=-1), "1 rows have another id", sql=True),
    _wrong_values("version", "snapshot_id_null", with_row(version=None), "1 rows are [NULL]", sql=True),
    _of_values("opened", "value_date_out_of_range", _days(1, 2, 2932897), "1 values are outside"),
    _of_values("seen_at", "timestamp_out_of_range", _micros("UTC", 0, 1, AFTER_9999), "1 values are outside"),
    _of_values("local_at", "datetime_out_of_range", _micros(None, 0, BEFORE_1, LOWEST), "2 values are outside"),
    _of_values("note", "text_of_another_encoding", _latin_1(), "1 values are not UTF-8"),
    _of_values("name", "key_of_another_encoding", _latin_1(), "1 values are not UTF-8"),
    _of_values("note", "enum_of_another_encoding", _latin_1(), "1 values are not UTF-8", ENUM),
    _of_values("name", "key_as_enum_of_another_encoding", _latin_1(), "1 values are not UTF-8", ENUM),
    _wrong_values(
        "info.label",
        "nested_text_of_another_encoding",
        with_column("info", _info(label=_latin_1())),
        "1 values are not UTF-8",
    ),
    _wrong_values(
        "info.since",
        "nested_date_out_of_range",
        with_column("info", _info(since=_days(1, 2, -719163))),
        "1 values are outside",
    ),
    _wrong_values("tags", "null_element_of_an_array", with_row(tags=["a", None, None]), "2 elements are [NULL]"),
    _wrong_values("parts", "null_struct_in_an_array", with_row(parts=[None]), "1 elements are [NULL]"),
    _of_values("price", "number_of_too_many_digits", _too_many_digits(), "1 values have more digits"),
    _of_values("code", "numbers_outside_unsigned_8", _small(-1, 256, 255), "values are outside [0, 255]", UINT8),
    _of_values(
        "code", "numbers_outside_signed_16", _small(-32769, -32768, 32768), "values are outside [-32768, 32767]", INT16
    ),
    BadDelivery(
        "nested_number_outside_signed_8",
        _claimed("parts", _NUMBERED_PARTS, INT8, "number"),
        (FILE, "column [parts.list.element.number]: values are outside [-128, 127]"),
    ),
    BadDelivery(
        "decimal_of_fixed_20_bytes",
        _claimed("price", pa.array([bytes(20)] * 3, pa.binary(20)), DECIMAL, scale=9, precision=38),
        (FILE, "column [price] is [FIXED_LEN_BYTE_ARRAY", "in [20] bytes, expected at most [16]"),
    ),
    BadDelivery(
        "decimal_of_17_bytes",
        _claimed("price", pa.array([bytes(1), bytes(17), None]), DECIMAL, scale=2, precision=18),
        (FILE, "cannot be read as Parquet"),
    ),
    _wrong_values(
        "note", "value_larger_than_a_row", with_row(note="x" * 50_000_001), "1 values are larger than [50000000]"
    ),
]


def _rows_behind_a_page_without_values(version: int) -> Files:
    return {FILE: parquet(table(version, rows=1, tags=[], parts=[]), data_page_size=1)}


def _fields_behind_a_page_without_values(version: int) -> Files:
    dictionaries = ["parts.list.element.price"]
    return {FILE: parquet(table(version, rows=1), data_page_size=1, use_dictionary=dictionaries)}


# Files that older versions of pyarrow read, but not that of the lock.
_UNREAD = [
    BadDelivery(
        "rows_behind_a_page_without_values", _rows_behind_a_page_without_values, (FILE, "but [0] could be read")
    ),
    BadDelivery(
        "fields_behind_a_page_without_values", _fields_behind_a_page_without_values, (FILE, "cannot be read as Parquet")
    ),
]
_are_read = any(
    True for _ in pq.ParquetFile(pa.BufferReader(_rows_behind_a_page_without_values(1)[FILE])).iter_batches()
)

CASES = [*FILES, *PLACES, *COLUMNS, *VALUES, *([] if _are_read else _UNREAD)]
