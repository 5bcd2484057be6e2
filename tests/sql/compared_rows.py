"""Random rows with columns of every type, also nested ones, ways to damage them, and an oracle that compares rows."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from testkit.oracle import ordered

Row = dict[str, Any]

DAY = date(2026, 6, 15)
SCALARS = ("BOOL", "BYTES", "DATE", "DATETIME", "FLOAT64", "INT64", "NUMERIC", "STRING", "TIMESTAMP")
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


def narrow_table(damage: str) -> TableContract:
    """TABLE with the columns that the damage concerns and few others: queries of all columns are slow."""
    names = {"date", "c_int64", "c_string", "r_int64", "update_id", damage.split(" ")[0].split(".")[0]}
    return replace(TABLE, columns=tuple(column for column in COLUMNS if column.name in names))


def random_rows(seed: int, count: int) -> list[Row]:
    """Rows of TABLE on date DAY, with the keys 0, 1, …. Equal seeds give equal rows."""
    source = random.Random(seed)
    rows = [{c.name: _random(source, c) for c in COLUMNS} for _ in range(count)]
    return [{**row, "date": DAY, "c_int64": number, "update_id": 7} for number, row in enumerate(rows)]


def comparison(rows: list[Row], expected: list[Row]) -> tuple[int, int, int, int]:
    """The numbers of rows, of expected rows, of missing rows and of surplus rows, by counting rows in Python."""
    found, wanted = (Counter(repr(ordered(row)) for row in side) for side in (rows, expected))
    return len(rows), len(expected), (wanted - found).total(), (found - wanted).total()


def damages() -> dict[str, Callable[[list[Row]], None]]:
    """Ways in which a table can lack or have rows, by name; one for each scalar at each depth."""
    return {
        "nothing": lambda rows: None,
        "other order": lambda rows: rows.reverse(),
        "missing row": lambda rows: rows.__delitem__(5),
        "no row": lambda rows: rows.clear(),
        "row twice": lambda rows: rows.append(rows[5]),
        "two rows twice in place of two others": lambda rows: rows.__setitem__(slice(5, 7), [rows[8], rows[8]]),
        "NULL for empty arrays": _empty_to_null,
        "values of two rows swapped": _swap,
        **{f"{name} changed": _change(path) for name, path in _paths(COLUMNS)},
    }


def _paths(columns: tuple[Column, ...]) -> Iterator[tuple[str, tuple[Column, ...]]]:
    for column in columns:
        if column.fields:
            yield from ((f"{column.name}.{name}", (column, *path)) for name, path in _paths(column.fields))
        elif column.name != "date":
            yield column.name, (column,)


def _empty_to_null(rows: list[Row]) -> None:
    for row in rows:
        row["r_int64"] = row["r_int64"] or None


def _swap(rows: list[Row]) -> None:
    rows[5]["c_string"], rows[6]["c_string"] = "a", "b"
    rows[7:8] = [{**rows[5], "c_string": "b"}, {**rows[6], "c_string": "a"}]


def _change(path: tuple[Column, ...]) -> Callable[[list[Row]], None]:
    """Another value at this place in a row that has one."""

    def change(rows: list[Row]) -> None:
        source = random.Random(1)
        for row in rows:
            holder: Any = row
            for column in path[:-1]:
                holder = holder[column.name]
                holder = holder[-1] if isinstance(holder, list) and holder else holder
                if not holder:
                    break
            else:
                before = ordered(holder[path[-1].name])
                while ordered(holder[path[-1].name]) == before:
                    holder[path[-1].name] = _random(source, path[-1])
                return
        raise AssertionError(f"no row has {path[-1].name}")

    return change


def damaged(rows: list[Row], name: str) -> list[Row]:
    """A copy of the rows with this damage."""
    found = copy.deepcopy(rows)
    damages()[name](found)
    return found


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
    if value is None:
        return f"CAST(NULL AS {sql_type(column)})"
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return f"ARRAY<{sql_type(element)}>[{', '.join(literal(element, item) for item in value)}]"
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
