"""Defines a table with columns of every type, also nested ones, and makes random rows of it, as Arrow and as SQL."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dedup_clone.contract.table import Column, ColumnMode, TableContract

DAY = date(2026, 6, 15)
SCALARS = ("BOOL", "BYTES", "DATE", "DATETIME", "FLOAT64", "INT64", "NUMERIC", "STRING", "TIMESTAMP")
_ARROW = {
    "BOOL": pa.bool_(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "FLOAT64": pa.float64(),
    "INT64": pa.int64(),
    "NUMERIC": pa.decimal128(38, 9),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_LEAVES = tuple(Column(f"f_{kind.lower()}", kind) for kind in SCALARS)
_TAGS = Column("tags", "STRING", ColumnMode.REPEATED)
COLUMNS = (
    Column("date", "DATE"),
    *(Column(f"c_{kind.lower()}", kind) for kind in SCALARS),
    *(Column(f"r_{kind.lower()}", kind, ColumnMode.REPEATED) for kind in SCALARS),
    Column("nested", "STRUCT", fields=(*_LEAVES, _TAGS)),
    Column("list", "STRUCT", ColumnMode.REPEATED, (*_LEAVES, _TAGS, Column("inside", "STRUCT", fields=_LEAVES[:2]))),
    Column("update_id", "INT64"),
)
TABLE = TableContract(COLUMNS, "date", "update_id", ("date", "c_int64"), (), 730)


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column's values."""
    kind = pa.struct([(f.name, arrow_type(f)) for f in column.fields]) if column.fields else _ARROW[column.type]
    return pa.list_(kind) if column.mode is ColumnMode.REPEATED else kind


SCHEMA = pa.schema([(column.name, arrow_type(column)) for column in COLUMNS])


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of TABLE on date DAY, with the keys 0, 1, …. Equal seeds give equal rows."""
    source = random.Random(seed)
    rows = [{c.name: _random(source, c) for c in COLUMNS} for _ in range(count)]
    return [{**row, "date": DAY, "c_int64": number, "update_id": 7} for number, row in enumerate(rows)]


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows of TABLE as an Arrow record batch."""
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _random(source: random.Random, column: Column) -> Any:
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        values = (_random(source, element) for _ in range(source.choice((0, 0, 1, 2, 3))))
        return [value for value in values if value is not None]  # BigQuery stores no NULL in an array
    if source.random() < 0.2:
        return None
    if column.fields:
        return {field.name: _random(source, field) for field in column.fields}
    return _scalar(source, column.type)


def _scalar(source: random.Random, kind: str) -> Any:
    moment = datetime(1, 1, 1) + timedelta(microseconds=source.randrange(315_537_897_600_000_000))  # noqa: DTZ001
    texts = ("", "n", ";", "n;", "1:a", "é✓😀", "e\u0301", "a\x00b", "x" * source.randrange(300), "(", "']\\\n")
    match kind:
        case "BOOL":
            return source.random() < 0.5
        case "BYTES":
            return source.choice((b"", b"\x00", b"\xff\xfe", source.randbytes(source.randrange(80))))
        case "DATE":
            return source.choice((date.min, date.max, date(1970, 1, 1), moment.date()))
        case "DATETIME":
            return source.choice((datetime(1970, 1, 1), moment, moment.replace(microsecond=0)))  # noqa: DTZ001
        case "FLOAT64":
            special = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308, 0.1, 1e22)
            return source.choice((*special, source.uniform(-1, 1), source.uniform(-1e300, 1e300), 2.0**-1074 * 3))
        case "INT64":
            return source.choice((0, -1, -(2**63), 2**63 - 1, source.randrange(-(2**63), 2**63)))
        case "NUMERIC":
            edge = Decimal("99999999999999999999999999999.999999999")
            sized = Decimal(source.randrange(-(10**20), 10**20)).scaleb(-source.randrange(10))
            return source.choice(
                (edge, edge.copy_negate(), Decimal("1E-9"), Decimal("-0.5"), Decimal(0), Decimal(100), sized)
            )
        case "STRING":
            return source.choice(texts)
        case "TIMESTAMP":
            return moment.replace(tzinfo=UTC)
    raise AssertionError(kind)


def literal(column: Column, value: Any) -> str:
    """An expression in GoogleSQL that has this value and exactly the column's type."""
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return f"ARRAY<{sql_type(element)}>[{', '.join(literal(element, item) for item in value or [])}]"
    if value is None:
        return f"CAST(NULL AS {sql_type(column)})"
    if column.fields:
        return f"{sql_type(column)}({', '.join(literal(field, value[field.name]) for field in column.fields)})"
    return _scalar_literal(column.type, value)


def _scalar_literal(kind: str, value: Any) -> str:
    match kind:
        case "BOOL":
            return str(value)
        case "BYTES":
            return f"FROM_HEX('{value.hex()}')"
        case "STRING":
            return f"CAST(FROM_HEX('{value.encode().hex()}') AS STRING)"
        case "INT64":
            return f"CAST('{value}' AS INT64)"
        case "FLOAT64":
            return f"CAST('{value!r}' AS FLOAT64)"
        case "DATE":
            return f"DATE '{value.isoformat()}'"
        case "NUMERIC":
            return f"NUMERIC '{value:f}'"
        case _:
            return f"{kind} '{value.isoformat(sep=' ')}'"


def sql_type(column: Column) -> str:
    """The column's type in GoogleSQL."""
    inner = column.type
    if column.fields:
        inner = f"STRUCT<{', '.join(f'{field.name} {sql_type(field)}' for field in column.fields)}>"
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner
