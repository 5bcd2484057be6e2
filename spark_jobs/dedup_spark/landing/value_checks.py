"""Values that a declared column cannot have in BigQuery although Parquet can hold them, counted batch by batch.

BigQuery refuses a whole load job for one of them, and landed files may be loaded as they are: so every value of every
column is looked at, nested ones too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.column_types import STRUCT

_EPOCH_DAY = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH_DAY).days, (date.max - _EPOCH_DAY).days
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND = int((datetime.min.replace(tzinfo=UTC) - _EPOCH).total_seconds())
_END_SECOND = (_LAST_DAY + 1) * 24 * 60 * 60
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# BigQuery asks for rows of at most 50 MB in Parquet files.
LARGEST_VALUE_BYTES = 50_000_000

Faults = Counter[tuple[str, str]]


def count_faults(column: Column, values: pa.Array, faults: Faults) -> None:
    """Adds to `faults`, by the column's path and what is wrong. NULL at the top level is not judged here."""
    _count(column, column.name, values, faults)


def _count(column: Column, path: str, values: pa.Array, faults: Faults) -> None:
    if column.mode is ColumnMode.REPEATED:
        elements = values.flatten()
        _add(
            faults, path, "elements are [NULL], expected none, for BigQuery has no NULL in arrays", elements.null_count
        )
        _count(Column(column.name, column.type, ColumnMode.NULLABLE, column.fields), path, elements, faults)
    elif column.type == STRUCT:
        present = values.drop_null()
        for field in column.fields:
            inner = pc.struct_field(present, field.name)
            if field.mode is ColumnMode.REQUIRED:
                _add(faults, f"{path}.{field.name}", "values are [NULL], expected none", inner.null_count)
            _count(field, f"{path}.{field.name}", inner, faults)
    elif column.type in _CHECKS:
        _CHECKS[column.type](path, plain(values).drop_null(), faults)


def plain(values: pa.Array) -> pa.Array:
    """Without the dictionary or extension type that an Arrow schema in the file may ask for."""
    if isinstance(values, pa.ExtensionArray):
        return plain(values.storage)
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _dates(path: str, values: pa.Array, faults: Faults) -> None:
    _range(path, values.cast(pa.date32()).cast(pa.int32()), _FIRST_DAY, _LAST_DAY, faults)


def _times(path: str, values: pa.Array, faults: Faults) -> None:
    per_second = _PER_SECOND[values.type.unit]
    _range(path, values.cast(pa.int64()), _FIRST_SECOND * per_second, _END_SECOND * per_second - 1, faults)


def _range(path: str, numbers: pa.Array, first: int, last: int, faults: Faults) -> None:
    bounds = pc.min_max(numbers)
    if len(numbers) and not first <= bounds["min"].as_py() <= bounds["max"].as_py() <= last:
        outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
        _add(faults, path, "values are outside [0001-01-01, 9999-12-31], BigQuery's range", outside.true_count)


def _texts(path: str, values: pa.Array, faults: Faults) -> None:
    if not _is_valid(values):
        _add(
            faults, path, "values are not UTF-8, expected text", sum(not _is_text(v) for v in values.cast(pa.binary()))
        )
    _sizes(path, values, faults)


def _is_text(value: pa.Scalar) -> bool:
    try:
        value.as_buffer().to_pybytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _sizes(path: str, values: pa.Array, faults: Faults) -> None:
    largest = pc.max(pc.binary_length(values)).as_py() or 0
    if largest > LARGEST_VALUE_BYTES:
        too_large = pc.greater(pc.binary_length(values), LARGEST_VALUE_BYTES)
        _add(
            faults, path, f"values are larger than [{LARGEST_VALUE_BYTES}] bytes, BigQuery's row", too_large.true_count
        )


def _numerics(path: str, values: pa.Array, faults: Faults) -> None:
    if not _is_valid(values):
        wrong = sum(not _is_valid(values.slice(n, 1)) for n in range(len(values)))
        digits = values.type.precision
        _add(faults, path, f"values have more digits than the [{digits}] that the file's own type allows", wrong)


def _is_valid(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _add(faults: Faults, path: str, what: str, count: int) -> None:
    if count:
        faults[path, what] += count


_CHECKS: dict[str, Callable[[str, pa.Array, Faults], None]] = {
    "BYTES": _sizes,
    "DATE": _dates,
    "DATETIME": _times,
    "NUMERIC": _numerics,
    "STRING": _texts,
    "TIMESTAMP": _times,
}
