"""Files that good producers write, all with the same rows: each encoding, type and page version of each writer."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import arrow_schema, spark_schema
from tests.shared.damaged_parquet import claim_type

TABLE = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("id", "INT64"),
        Column("small", "INT64"),
        Column("amount", "FLOAT64"),
        Column("price", "NUMERIC"),
        Column("flag", "BOOL"),
        Column("note", "STRING"),
        Column("raw", "BYTES"),
        Column("opened", "DATE"),
        Column("seen_at", "TIMESTAMP"),
        Column("local_at", "DATETIME"),
        Column("marks", "FLOAT64", ColumnMode.REPEATED),
        Column("tags", "STRING", ColumnMode.REPEATED),
        Column("info", "STRUCT", fields=(Column("number", "INT64"), Column("label", "STRING"))),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "id"),
    cluster_by=(),
    retention_days=9999,
)
SCHEMA = arrow_schema(TABLE.columns)
_NULLABLE = [column.name for column in TABLE.columns if column.name not in ("day", "id", "version")]


def expected(day: date) -> list[dict[str, Any]]:
    """The rows of each file: six, and in each nullable column one NULL, not in the same row.

    In the columns before `marks` the NULL is in row 1, before other texts: there Spark 3.5.3 decodes wrongly. Floats
    are equal, so that DuckDB writes no BYTE_STREAM_SPLIT, which the data contract excludes.
    """
    rows = [_row(day, number) for number in range(6)]
    for position, name in enumerate(_NULLABLE):
        rows[1 if position < 9 else position % 6][name] = None
    return rows


def _row(day: date, number: int) -> dict[str, Any]:
    text = f"a text that is too long to be inlined in a view, {number}"
    return {
        "day": day,
        "id": number,
        "small": number * 20,
        "amount": 1.5,
        "price": Decimal(number).scaleb(-2) + Decimal("7.250000000"),
        "flag": number % 2 == 0,
        "note": text if number % 2 else "é" * number,
        "raw": bytes([number, 255]),
        "opened": date(2020, 1, 1) + timedelta(days=number),
        "seen_at": datetime(2026, 3, 1, 12, 30, number, 5000, tzinfo=UTC),
        "local_at": datetime(1969, 12, 31, 23, 59, number, 7000),  # noqa: DTZ001  # a DATETIME has no zone
        "marks": [0.25, 0.25],
        "tags": ["north", text],
        "info": {"number": number, "label": text},
        "version": 1,
    }


def _rows(day: date, **kinds: pa.DataType) -> pa.Table:
    schema = SCHEMA
    for name, kind in kinds.items():
        schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
    return pa.Table.from_pylist(expected(day), schema)


# The columns of texts and of whole numbers in Parquet, and their encodings with pyarrow's writer.
_TEXTS = ("note", "raw", "tags.list.element", "info.label")
_NUMBERS = ("id", "small", "version", "seen_at", "local_at", "day", "opened", "info.number")
_DELTA_NUMBERS = dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED")
ENCODINGS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": {"note": "DELTA_LENGTH_BYTE_ARRAY", **_DELTA_NUMBERS}},
}
TEXT_ENCODINGS: dict[str, dict[str, Any]] = {
    encoding: {"use_dictionary": False, "column_encoding": dict.fromkeys(_TEXTS, encoding)}
    for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
}
# More of pyarrow's options, by name.
LAYOUTS: dict[str, dict[str, Any]] = {
    "small_pages": {"data_page_size": 1, "dictionary_pagesize_limit": 64, "write_batch_size": 2},
    "run_lengths": {"use_dictionary": False, "column_encoding": {"flag": "RLE"}},
    "page_index": {"write_page_index": True, "row_group_size": 2, "write_page_checksum": True},
    "old_format": {"version": "1.0", "use_compliant_nested_type": False, "store_schema": False},
    "decimals_as_integers": {"store_decimal_as_integer": True},
    **{compression: {"compression": compression} for compression in ("none", "snappy", "gzip", "zstd")},
}
# By name, Arrow types by column; some of them change the type in Parquet, others are hints for Arrow alone.
_TEXT_CODE = pa.dictionary(pa.int32(), pa.string())
TYPES: dict[str, dict[str, pa.DataType]] = {
    "declared": {},
    **{str(kind): {"small": kind} for kind in (pa.int8(), pa.int16(), pa.int32())},
    **{str(kind): {"small": kind, "id": kind} for kind in (pa.uint8(), pa.uint16(), pa.uint32())},
    "narrow": {"seen_at": pa.timestamp("ms", tz="Asia/Tokyo"), "local_at": pa.timestamp("ms"), "amount": pa.float32()},
    "decimal_9": {"price": pa.decimal128(9, 2)},
    "decimal_18": {"price": pa.decimal128(18, 9)},
    "fixed_bytes": {"raw": pa.binary(2)},
    "large": {"note": pa.large_string(), "raw": pa.large_binary(), "tags": pa.large_list(pa.large_string())},
    "dictionaries": {"note": _TEXT_CODE, "tags": pa.list_(_TEXT_CODE)},
    "date_64": {"opened": pa.date64()},
    "duration": {"small": pa.duration("us")},
}
PAGE_VERSIONS = ("1.0", "2.0")
# Made by files_of_writers/make.py.
STORED = Path(__file__).with_name("files_of_writers")


def write_catalogue(spark: SparkSession, folder: Path) -> dict[str, tuple[date, bytes]]:
    """By name, each file and the date of its rows. `folder`: an empty one, for programs that write to disk."""
    writers: dict[str, Callable[[date], bytes]] = {**_of_pyarrow(), **_of_duckdb(folder), **_of_spark(spark, folder)}
    writers["pandas"] = lambda day: _rows(day).to_pandas(types_mapper=pandas.ArrowDtype).to_parquet()
    days = (date(2026, 1, 1) + timedelta(days=number) for number in range(len(writers)))
    files = {name: (day, write(day)) for (name, write), day in zip(writers.items(), days, strict=True)}
    for path in sorted(STORED.glob("*.parquet")):
        (day,) = pq.read_table(path, columns=["day"])["day"].unique().to_pylist()
        files[path.stem] = (day, path.read_bytes())
    return files


def _of_pyarrow() -> dict[str, Callable[[date], bytes]]:
    files = {
        f"pyarrow {kind} {encoding} {version}": _pyarrow(kinds, {**options, "data_page_version": version})
        for kind, kinds in TYPES.items()
        for encoding, options in ENCODINGS.items()
        for version in PAGE_VERSIONS
    }
    files |= {
        f"pyarrow {name} {version}": _pyarrow({}, {**options, "data_page_version": version})
        for name, options in (TEXT_ENCODINGS | LAYOUTS).items()
        for version in PAGE_VERSIONS
    }
    files |= {
        f"decimal in bytes {encoding} {version}": _decimal_in_bytes(
            {**ENCODINGS[encoding], "data_page_version": version}
        )
        for encoding in ("dictionary", "plain")
        for version in PAGE_VERSIONS
    }
    enum = 4
    files["enum"] = lambda day: claim_type(_pyarrow({}, {})(day), "note", enum)
    return files


def _pyarrow(kinds: dict[str, pa.DataType], options: dict[str, Any]) -> Callable[[date], bytes]:
    def write(day: date) -> bytes:
        stream = io.BytesIO()
        pq.write_table(_rows(day, **kinds), stream, **options)
        return stream.getvalue()

    return write


def _decimal_in_bytes(options: dict[str, Any]) -> Callable[[date], bytes]:
    """As parquet-java writes a DECIMAL(18, 2) of Avro."""

    def write(day: date) -> bytes:
        rows, decimal, stream = _rows(day), 5, io.BytesIO()
        numbers = [None if row["price"] is None else int(row["price"] * 100) for row in expected(day)]
        stored = pa.array(
            [None if n is None else n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True) for n in numbers]
        )
        pq.write_table(rows.set_column(rows.schema.get_field_index("price"), "price", stored), stream, **options)
        return claim_type(stream.getvalue(), "price", decimal, scale=2, precision=18)

    return write


def _of_duckdb(folder: Path) -> dict[str, Callable[[date], bytes]]:
    def writer(options: str) -> Callable[[date], bytes]:
        def write(day: date) -> bytes:
            target = folder / f"duckdb-{day}.parquet"
            with duckdb.connect() as connection:
                connection.register("rows", _rows(day))
                connection.execute(f"COPY rows TO '{target}' (FORMAT parquet, {options})")
            return target.read_bytes()

        return write

    versions, codecs = ("V1", "V2"), ("snappy", "zstd")
    options = [f"PARQUET_VERSION {version}, COMPRESSION {codec}" for version in versions for codec in codecs]
    return {f"duckdb {text}": writer(text) for text in options}


def _of_spark(spark: SparkSession, folder: Path) -> dict[str, Callable[[date], bytes]]:
    def writer(legacy: str, options: dict[str, str]) -> Callable[[date], bytes]:
        def write(day: date) -> bytes:
            target = folder / f"spark-{day}"
            spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
            rows = spark.createDataFrame(expected(day), spark_schema(TABLE.columns)).coalesce(1)
            rows.write.options(**options).parquet(str(target))
            (part,) = target.glob("*.parquet")
            return part.read_bytes()

        return write

    forms = {
        "v1": {},
        "v2": {"parquet.writer.version": "v2"},
        "plain v2": {"parquet.writer.version": "v2", "parquet.enable.dictionary": "false"},
        "bloom filters": {"parquet.bloom.filter.enabled#note": "true", "parquet.bloom.filter.enabled#id": "true"},
    }
    files = {f"spark {name}": writer("false", options) for name, options in forms.items()}
    return files | {"spark legacy": writer("true", {})}
