"""SQL expressions that order and compare the rows of a table as docs/deliver-snapshots.md says, whatever their types.

Where BigQuery converts between times of day and points in time, the zone is named, because a project may have another
default than UTC.

BigQuery orders scalars in this way, except NaN, which it puts lowest; it cannot order structs and arrays. So each value
column is turned into expressions that BigQuery can order (descending, NULL last) and compare: a struct into the
expressions of its fields, an array into a text that sorts as the array's elements do.

Whole rows are compared by their texts, in which each value shows where it ends, so that different rows never have the
same text. TO_JSON_STRING is not used: its digits of a FLOAT64 are not defined, and it writes NaN and the text "NaN"
alike. Two differences are ignored, since query results do not show them: between NULL and empty arrays, and in the sign
of zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dedup_clone.contract.table import (
    NUMERIC_INTEGER_DIGITS,
    NUMERIC_SCALE,
    Column,
    ColumnMode,
    PartitionBy,
    TableContract,
)

_GREATEST_NUMERIC = f"NUMERIC '{'9' * NUMERIC_INTEGER_DIGITS}.{'9' * NUMERIC_SCALE}'"
# Terminates texts of varying length. It sorts before all hexadecimal digits, so a prefix sorts before longer texts.
_TERMINATOR = "' '"


def quoted(name: str) -> str:
    """The name as a quoted identifier, so that it may be a reserved word."""
    return f"`{name}`"


def date_sql(table: TableContract, path: str = "") -> str:
    """The expression for a row's date. `path`: what has the value of the partition column, such as `held.day`.

    Filters on it prune partitions: BigQuery's page "Query partitioned tables" has `DATE(datehour)` as an example.
    """
    path = path or quoted(table.partition_column)
    return {"DATE": path, "DATETIME": f"DATE({path})", "TIMESTAMP": f"DATE({path}, 'UTC')"}[table.date_type]


def partition_sql(table: TableContract, unit: PartitionBy = PartitionBy.DAY) -> str:
    """The expression of PARTITION BY. `unit`: the time span of a partition."""
    column, kind = quoted(table.partition_column), table.date_type
    is_column = kind == "DATE" and unit is PartitionBy.DAY
    return column if is_column else f"{kind}_TRUNC({column}, {unit.upper()})"


def value_expressions(table: TableContract) -> list[str]:
    """Expressions which, each in descending order, put the greatest row of one key and one snapshot id first.

    Two rows have the same values when each expression of one IS NOT DISTINCT FROM that of the other.
    """
    return [sql for column in table.value_columns for sql in _ordered_expressions(column, quoted(column.name))]


def row_text(table: TableContract) -> str:
    """The expression for the text of one row, which is never NULL."""
    arguments = ",\n      ".join(_text(column, quoted(column.name), 0) for column in table.columns)
    return f"CONCAT(\n      {arguments}\n    )"


def null_conditions(table: TableContract) -> list[tuple[str, str]]:
    """Paths of the columns that must have no NULL, each with the condition that a row has NULL there.

    These columns are keys, the update id, and REQUIRED columns and fields. The fields of a STRUCT that is itself NULL
    may be NULL.
    """
    not_null = {*table.keys, table.snapshot_id_column}
    conditions = []
    for column in table.columns:
        path = quoted(column.name)
        if column.name in not_null or column.mode is ColumnMode.REQUIRED:
            conditions.append((column.name, f"{path} IS NULL"))
        conditions += _null_fields(column, column.name, path, 1)
    return conditions


def key_text(table: TableContract) -> str:
    """An expression for a key within its date as readable text, `name=value, …`.

    It reads columns `key_1`, `key_2`, … in the order of the contract's keys.
    """
    named = [(f"key_{number}", name) for number, name in enumerate(table.keys, start=1)]
    shown = [item for item in named if item[1] in table.keys_of_date]
    arguments: list[str] = []
    for number, (path, name) in enumerate(shown):
        text = f"TO_HEX({path})" if table.column(name).type == "BYTES" else f"CAST({path} AS STRING)"
        arguments += [f"'{', ' if number else ''}{name}='", text]
    return f"CONCAT({', '.join(arguments)})"


def _null_fields(column: Column, name: str, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """The conditions of `null_conditions` for the fields of a STRUCT, or of the STRUCTs in an array.

    `depth`: as in `_array_text`.
    """
    is_array = column.mode is ColumnMode.REPEATED
    struct = f"element_{depth}" if is_array else path
    for field in column.fields:
        field_name, field_path = f"{name}.{field.name}", f"{struct}.{quoted(field.name)}"
        conditions = list(_null_fields(field, field_name, field_path, depth + is_array))
        if field.mode is ColumnMode.REQUIRED:
            conditions.insert(0, (field_name, f"({struct} IS NOT NULL AND {field_path} IS NULL)"))
        for null_name, condition in conditions:
            yield (
                null_name,
                f"EXISTS (SELECT 1 FROM UNNEST({path}) AS {struct} WHERE {condition})" if is_array else condition,
            )


def _ordered_expressions(column: Column, path: str) -> Iterator[str]:
    """The expressions of `value_expressions` for one column or field."""
    if column.mode is ColumnMode.REPEATED:
        yield _array_text(column, path, 1)
    elif column.fields:
        yield f"({path} IS NOT NULL)"
        for field in column.fields:
            yield from _ordered_expressions(field, f"{path}.{quoted(field.name)}")
    elif column.type == "FLOAT64":
        yield f"IFNULL(IS_NAN({path}), FALSE)"
        yield f"IF(IS_NAN({path}), 0, {path})"
    else:
        yield path


def _array_text(column: Column, path: str, depth: int) -> str:
    """The text of an array. It is NULL for an empty array, which BigQuery does not distinguish from a NULL array.

    `depth`: how deep arrays are nested here; it keeps the aliases of inner and outer elements apart.
    """
    element, position = f"element_{depth}", f"position_{depth}"
    element_text = _text(replace(column, mode=ColumnMode.NULLABLE), element, depth)
    return (
        f"(SELECT STRING_AGG({element_text}, '' ORDER BY {position}) "
        f"FROM UNNEST({path}) AS {element} WITH OFFSET AS {position})"
    )


def _text(column: Column, path: str, depth: int) -> str:
    """A text that sorts as the value does, unless that has a FLOAT64.

    No text is a prefix of another, so concatenated texts sort correctly too.
    """
    if column.mode is ColumnMode.REPEATED:
        return f"CONCAT(IFNULL({_array_text(column, path, depth + 1)}, ''), {_TERMINATOR})"
    if column.fields:
        texts = ", ".join(_text(field, f"{path}.{quoted(field.name)}", depth) for field in column.fields)
        return f"IF({path} IS NULL, '0', CONCAT('1', {texts}))"
    return f"IF({path} IS NULL, '0', CONCAT('1', {_scalar_text(column.type, path)}))"


def _scalar_text(column_type: str, path: str) -> str:
    """One or more arguments of CONCAT, separated by commas, that make the text of a scalar."""
    match column_type:
        case "INT64":
            return _integer_text(path)
        case "DATE":
            return _integer_text(f"UNIX_DATE({path})")
        case "TIMESTAMP":
            return _integer_text(f"UNIX_MICROS({path})")
        case "DATETIME":
            return _integer_text(f"UNIX_MICROS(TIMESTAMP({path}, 'UTC'))")
        case "NUMERIC":
            return _numeric_text(path)
        case "BOOL":
            return f"IF({path}, '1', '0')"
        case "FLOAT64":
            # Seventeen digits distinguish every number from its neighbours.
            digits = f"CASE WHEN IS_NAN({path}) THEN 'nan' WHEN {path} = 0 THEN '0' ELSE FORMAT('%.16e', {path}) END"
            return f"{digits}, {_TERMINATOR}"
        case "STRING":
            return f"TO_HEX(CAST({path} AS BYTES)), {_TERMINATOR}"
        case "BYTES":
            return f"TO_HEX({path}), {_TERMINATOR}"
    raise ValueError(f"[{column_type}] has no text in SQL")  # settings allow no other type


def _integer_text(path: str) -> str:
    """A digit for the sign, then nineteen digits. A negative number is given as its distance from the least INT64.

    The distance is computed by clearing the sign bit. It is not computed by adding 2^63 in two halves, because an
    optimizer may add the two constants first, which overflows.
    """
    return f"IF({path} < 0, '0', '1'), LPAD(CAST({path} & 9223372036854775807 AS STRING), 19, '0')"


def _numeric_text(path: str) -> str:
    """A digit for the sign, then the digits before and after the point; negative numbers as in `_integer_text`."""
    digits = f"SPLIT(CAST(IF({path} < 0, {_GREATEST_NUMERIC} + {path}, {path}) AS STRING), '.')"
    return (
        f"IF({path} < 0, '0', '1'), LPAD({digits}[OFFSET(0)], {NUMERIC_INTEGER_DIGITS}, '0'), "
        f"RPAD(IFNULL({digits}[SAFE_OFFSET(1)], ''), {NUMERIC_SCALE}, '0')"
    )


def as_in_files(table: TableContract) -> TableContract:
    """The table as BigQuery reads it from Parquet files without a schema: DATETIME is TIMESTAMP there.

    "Loading Parquet data from Cloud Storage", type conversions. A row has the same text in both.
    """
    return replace(table, columns=tuple(_as_in_files(column) for column in table.columns))


def _as_in_files(column: Column) -> Column:
    type_in_files = "TIMESTAMP" if column.type == "DATETIME" else column.type
    return replace(column, type=type_in_files, fields=tuple(_as_in_files(field) for field in column.fields))
