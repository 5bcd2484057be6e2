"""Random rows with columns of every type, also nested ones, ways to damage them, and an oracle that compares rows."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from testkit import generated_tables
from testkit.generated_tables import random_value
from testkit.oracle import ordered

Row = dict[str, Any]

DAY = date(2026, 6, 15)
_SOURCE = random.Random(2)
# Also values whose text or bytes a comparison might take for those of another row.
VALUES: dict[str, list[Any]] = {
    **generated_tables.VALUES,
    "BYTES": [*generated_tables.VALUES["BYTES"], b"\xff\xfe", *(_SOURCE.randbytes(size) for size in (9, 31, 80))],
    "FLOAT64": [*generated_tables.VALUES["FLOAT64"], 0.1, 1e22, 1.7976931348623157e308, 2.0**-1074 * 3]
    + [_SOURCE.uniform(-bound, bound) for bound in (1, 1, 1e300, 1e300)],
    "INT64": [*generated_tables.VALUES["INT64"], *(_SOURCE.randrange(-(2**63), 2**63) for _ in range(5))],
    "NUMERIC": [*generated_tables.VALUES["NUMERIC"], Decimal("-0.5"), Decimal(100)]
    + [Decimal(_SOURCE.randrange(-(10**20), 10**20)).scaleb(-scale) for scale in range(10)],
    "STRING": ["", "n", ";", "n;", "1:a", "é✓😀", "e\u0301", "a\x00b", "x" * 299, "(", "']\\\n"],
}
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
    rows = [{c.name: random_value(source, c, VALUES) for c in COLUMNS} for _ in range(count)]
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
                    holder[path[-1].name] = random_value(source, path[-1], VALUES)
                return
        raise AssertionError(f"no row has {path[-1].name}")

    return change


def damaged(rows: list[Row], name: str) -> list[Row]:
    """A copy of the rows with this damage."""
    found = copy.deepcopy(rows)
    damages()[name](found)
    return found


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
        case "TIMESTAMP":  # in files also of a DATETIME, which has no zone
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}+00'"
        case _:
            return f"{kind} '{value.isoformat(sep=' ')}'"


def sql_type(column: Column) -> str:
    """The column's type in GoogleSQL."""
    inner = column.type
    if column.fields:
        inner = f"STRUCT<{', '.join(f'`{field.name}` {sql_type(field)}' for field in column.fields)}>"
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner
