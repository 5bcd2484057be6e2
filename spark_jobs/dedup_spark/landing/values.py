"""Counts values of landed files that BigQuery cannot store in a declared column.

One such value would fail the load job of all files, because landed files may be loaded as they are, or a later cast of
the file. So every value of every column is checked, also inside arrays and structs. All others can be cast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrow_cast import field_of, is_encoded
from dedup_spark.column_types import STRUCT, arrow_field

EPOCH_DAY = date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (date.min - EPOCH_DAY).days, (date.max - EPOCH_DAY).days
_DAY_SECONDS = 24 * 60 * 60
# The first second of the first day, and the first one after the last day.
_FIRST_SECOND, _END_SECOND = FIRST_DAY * _DAY_SECONDS, (LAST_DAY + 1) * _DAY_SECONDS
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# BigQuery's limit for a row of a Parquet file, in bytes, and so for each value.
LARGEST_VALUE_BYTES = 50_000_000
_NOT_IN_BIGQUERY = "values are outside [0001-01-01, 9999-12-31], BigQuery's range"

# Number of invalid values by the column's path and the problem.
InvalidValues = Counter[tuple[str, str]]


def count_invalid_values(column: Column, values: pa.Array, counts: InvalidValues) -> None:
    """Add the numbers of invalid values to `counts`. NULL counts only in arrays and in REQUIRED fields of STRUCTs."""
    _count(column, column.name, values, counts)


def _count(column: Column, path: str, values: pa.Array, counts: InvalidValues) -> None:
    if column.mode is ColumnMode.REPEATED:
        elements = values.flatten()
        problem = "elements are [NULL], expected none, for BigQuery has no NULL in arrays"
        _add(counts, path, problem, elements.null_count)
        _count(Column(column.name, column.type, ColumnMode.NULLABLE, column.fields), path, elements, counts)
    elif column.type == STRUCT:
        present = values.drop_null()
        for field in column.fields:
            inner = field_of(present, arrow_field(field))
            if field.mode is ColumnMode.REQUIRED:
                _add(counts, f"{path}.{field.name}", "values are [NULL], expected none", inner.null_count)
            _count(field, f"{path}.{field.name}", inner, counts)
    elif column.type in _CHECKS:
        _CHECKS[column.type](path, values.drop_null(), counts)


def _check_dates(path: str, values: pa.Array, counts: InvalidValues) -> None:
    _check_range(path, values.cast(pa.int32()), FIRST_DAY, LAST_DAY, _NOT_IN_BIGQUERY, counts)


def _check_times(path: str, values: pa.Array, counts: InvalidValues) -> None:
    per_second = _PER_SECOND[values.type.unit]
    first, last = _FIRST_SECOND * per_second, _END_SECOND * per_second - 1
    _check_range(path, values.cast(pa.int64()), first, last, _NOT_IN_BIGQUERY, counts)


def _check_range(path: str, numbers: pa.Array, first: int, last: int, problem: str, counts: InvalidValues) -> None:
    bounds = pc.min_max(numbers)
    if len(numbers) and not first <= bounds["min"].as_py() <= bounds["max"].as_py() <= last:
        outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
        _add(counts, path, problem, outside.true_count)


def _check_texts(path: str, values: pa.Array, counts: InvalidValues) -> None:
    if is_encoded(values):
        texts = values.dictionary
        if _is_valid(texts.view(pa.string())) and _largest(texts) <= LARGEST_VALUE_BYTES:
            return
        values = values.dictionary_decode()  # the dictionary may have texts that no row has
    if not _is_valid(values.view(pa.string())):  # pyarrow reads an ENUM as bytes
        invalid = sum(not _is_text(value) for value in values.cast(pa.binary()))
        _add(counts, path, "values are not UTF-8, expected text", invalid)
    _check_sizes(path, values, counts)


def _is_text(value: pa.Scalar) -> bool:
    try:
        value.as_buffer().to_pybytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_sizes(path: str, values: pa.Array, counts: InvalidValues) -> None:
    if _largest(values) > LARGEST_VALUE_BYTES:
        too_large = pc.greater(pc.binary_length(values), LARGEST_VALUE_BYTES).true_count
        _add(counts, path, f"values are larger than [{LARGEST_VALUE_BYTES}] bytes, BigQuery's row", too_large)


def _largest(values: pa.Array) -> int:
    """The length in bytes of the largest value."""
    return pc.max(pc.binary_length(values)).as_py() or 0


def _check_numerics(path: str, values: pa.Array, counts: InvalidValues) -> None:
    if pa.types.is_integer(values.type):  # every integer fits into NUMERIC
        return
    if not _is_valid(values):
        invalid = sum(not _is_valid(values.slice(n, 1)) for n in range(len(values)))
        digits = values.type.precision
        _add(counts, path, f"values have more digits than the [{digits}] that the file's own type allows", invalid)


def _is_valid(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _add(counts: InvalidValues, path: str, problem: str, count: int) -> None:
    if count:
        counts[path, problem] += count


_CHECKS: dict[str, Callable[[str, pa.Array, InvalidValues], None]] = {
    "BYTES": _check_sizes,
    "DATE": _check_dates,
    "DATETIME": _check_times,
    "NUMERIC": _check_numerics,
    "STRING": _check_texts,
    "TIMESTAMP": _check_times,
}
