"""Makes random tables and rows with the caller's `Random`. Each type has few values: equal keys and rows are frequent.

The values are those whose order or equality is easy to get wrong: NULL, NaN, both zeros, empty text and arrays, arrays
that begin like others, NULL structs beside structs of NULL, the ends of each type's range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode, TableContract

Row = dict[str, Any]

DAY, VERSION = "day", "version"
_MOMENTS = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31)]  # noqa: DTZ001
VALUES: dict[str, list[Any]] = {
    "BOOL": [False, True],
    "BYTES": [b"", b"\x00", b"\x00\x00", b"\x7f", b"\x80", b"\xff"],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    "DATETIME": _MOMENTS,
    "FLOAT64": [-math.inf, -1.5, -5e-324, -0.0, 0.0, 1.5, 1e300, math.inf, math.nan],
    "INT64": [-(2**63), -10, -9, -1, 0, 1, 9, 10, 2**63 - 1],
    "NUMERIC": [
        *map(Decimal, ("-99999999999999999999999999999.999999999", "-10.000000000", "-9.500000000", "-0.000000001")),
        *map(Decimal, ("0.000000000", "0.100000000", "9.500000000", "99999999999999999999999999999.999999999")),
    ],
    # The last two sort in another order as UTF-16 than as UTF-8.
    "STRING": ["", " ", "a", "a ", "ab", "b", "é", "\uffee", "\U0001f600"],
    "TIMESTAMP": [moment.replace(tzinfo=UTC) for moment in _MOMENTS],
}
_TIMES = (time(0), time(12, 30), time.max)
_KEY_TYPES = ("BOOL", "BYTES", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP")
_MAX_DEPTH = 3


def random_value(random: Random, column: Column, values: Mapping[str, list[Any]] = VALUES) -> Any:
    """A value that BigQuery can store. An array may be NULL in a file, which BigQuery reads as an empty one."""
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, ColumnMode.REQUIRED, column.fields)
        arrays = [[random_value(random, element, values) for _ in range(n)] for n in (1, 1, 2, 3)]
        return random.choice([None, [], *arrays])
    if column.mode is not ColumnMode.REQUIRED and random.random() < 0.3:
        return None
    if column.fields:
        return {inner.name: random_value(random, inner, values) for inner in column.fields}
    return random.choice(values[column.type])


def random_table(random: Random, *, floats_in_arrays: bool) -> TableContract:
    """A table with columns of any types in any order. `floats_in_arrays`: whether arrays may contain FLOAT64."""
    modes = [ColumnMode.NULLABLE, ColumnMode.REQUIRED]
    keys = [
        Column(f"key_{n}", random.choice(_KEY_TYPES), random.choice(modes)) for n in range(random.choice([1, 1, 2]))
    ]
    maker = _ColumnMaker(random, floats_in_arrays)
    values = [maker.column(f"value_{n}", depth=1) for n in range(random.choice([0, 1, 2, 4]))]
    columns = [Column(DAY, "DATE", random.choice(modes)), *keys, *values, Column(VERSION, "INT64")]
    random.shuffle(columns)
    names = [DAY, *(key.name for key in keys)]
    random.shuffle(names)
    cluster_by = tuple(key.name for key in keys[:1] if key.type != "BYTES")  # BYTES cannot cluster a table
    return TableContract(tuple(columns), DAY, VERSION, tuple(names), cluster_by, retention_days=730)


@dataclass(frozen=True)
class _ColumnMaker:
    """Makes random value columns, nested to at most `_MAX_DEPTH` levels: a STRUCT in a STRUCT, no deeper one."""

    random: Random
    floats_in_arrays: bool

    def column(self, name: str, depth: int, in_array: bool = False) -> Column:
        random = self.random
        mode = random.choice([ColumnMode.NULLABLE, ColumnMode.NULLABLE, ColumnMode.REQUIRED, ColumnMode.REPEATED])
        inside = in_array or mode is ColumnMode.REPEATED
        if depth < _MAX_DEPTH and random.random() < 0.4:
            count = random.choice([1, 2, 3])
            fields = tuple(self.column(f"field_{n}", depth + 1, inside) for n in range(count))
            return Column(name, "STRUCT", mode, fields)
        kinds = [kind for kind in VALUES if kind != "FLOAT64" or self.floats_in_arrays or not inside]
        return Column(name, random.choice(kinds), mode)


def by_day(rows: pa.Table, column: str) -> dict[date, pa.Table]:
    """The rows of each date of the column, whose times are in UTC."""
    values = rows[column].to_pylist()
    days = pa.array([value.date() if isinstance(value, datetime) else value for value in values], pa.date32())
    return {day: rows.filter(pc.equal(days, pa.scalar(day, pa.date32()))) for day in dict.fromkeys(days.to_pylist())}


@dataclass
class GeneratedHistory:
    """Makes each snapshot of a table from the one before: a few keys come and go, a few values change.

    Most values of a column are the same, so that unchanged rows, and duplicate rows that differ only in a later column,
    are frequent. The keys of all dates are drawn from one pool, so that keys often go missing and return.
    `repeat`: the probability, below 1, that one more row of the same key follows a row in a snapshot. `days`: the
    number of dates, from `first_day` on. `sizes`: how many keys a date may begin with. `_rows`: for each date, the
    current values of each key.
    """

    table: TableContract
    random: Random
    first_day: date
    days: int = 3
    repeat: float = 0.0
    sizes: Sequence[int] = (1, 20)
    _rows: list[dict[tuple[Any, ...], Row]] = field(init=False)

    def __post_init__(self) -> None:
        self._usual = {column.name: random_value(self.random, column) for column in self.table.value_columns}
        partition, has_time = self.table.partition_column, self.table.date_type != "DATE"
        self._keys = [c for c in self.table.columns if c.name in self.table.keys and c.name != partition]
        # Numbers of a small range are packed in another way than those that need 64 bits.
        values = [
            range(30) if column.type == "INT64" and self.random.random() < 0.5 else VALUES[column.type]
            for column in self._keys
        ]
        # With times, a key begins with the number of one.
        values = [range(len(_TIMES)), *values] if has_time else values
        self._pool = [tuple(map(self.random.choice, values)) for _ in range(2 * max(self.sizes))]
        self._rows = [{} for _ in range(self.days)]
        for values_by_key in self._rows:
            for _ in range(self.random.choice(self.sizes)):
                self._put(values_by_key)

    def add_column(self, column: Column) -> None:
        """Give the table one more value column, which later snapshots have."""
        self.table = replace(self.table, columns=(*self.table.columns, column))
        self._usual[column.name] = random_value(self.random, column)
        for values_by_key in self._rows:
            for values in values_by_key.values():
                values[column.name] = random_value(self.random, column)

    def snapshot(self, snapshot_id: int) -> list[Row]:
        """The rows of the next snapshot, in random order. Some keys may have several rows, and some dates none."""
        random, rows = self.random, []
        for number, values_by_key in enumerate(self._rows):
            for _ in range(random.choice([0, 1, 4])):
                if len(values_by_key) > 1:
                    values_by_key.pop(random.choice(list(values_by_key)))
                self._put(values_by_key)
            if number and random.random() < 0.2:
                continue  # the snapshot lacks this date; the first date is always there
            for key, values in values_by_key.items():
                rows.append(self._row(number, key, values, snapshot_id))
                while random.random() < self.repeat:
                    rows.append(self._row(number, key, self._values(), snapshot_id))
        random.shuffle(rows)
        return rows

    def moments(self, number: int) -> list[Any]:
        """The values of the partition column on a date, which is given by its number."""
        day, zone = self.first_day + timedelta(days=number), UTC if self.table.date_type == "TIMESTAMP" else None
        return [day] if self.table.date_type == "DATE" else [datetime.combine(day, at, zone) for at in _TIMES]

    def _put(self, values_by_key: dict[tuple[Any, ...], Row]) -> None:
        """Give a random key, which may be there already, random values."""
        values_by_key[self.random.choice(self._pool)] = self._values()

    def _values(self) -> Row:
        random, usual_share = self.random, 0.7
        return {
            column.name: self._usual[column.name] if random.random() < usual_share else random_value(random, column)
            for column in self.table.value_columns
        }

    def _row(self, number: int, key: tuple[Any, ...], values: Row, snapshot_id: int) -> Row:
        moments = self.moments(number)
        day, key = (moments[key[0]], key[1:]) if len(moments) > 1 else (moments[0], key)
        named = {column.name: value for column, value in zip(self._keys, key, strict=True)}
        row = {**named, **values, self.table.partition_column: day, self.table.snapshot_id_column: snapshot_id}
        return {column.name: row[column.name] for column in self.table.columns}
