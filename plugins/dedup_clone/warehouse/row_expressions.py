"""SQL expressions by which rows of a table are ordered and compared as the contract says, whatever their types.

Precedence inside one delivery goes by the value columns in schema order: NULL lowest, NaN highest, structs field by
field, arrays element by element. BigQuery orders scalars so, but for NaN, which it puts lowest; it orders no structs
and no arrays. So a value column becomes one or more expressions that BigQuery orders (descending, NULL last) and
compares as the contract does: a struct its fields, an array a text whose order is that of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.contract.table import Column, ColumnMode, TableContract

_GREATEST_NUMERIC = "NUMERIC '99999999999999999999999999999.999999999'"
_NUMERIC_INTEGER_DIGITS = 29
_NUMERIC_SCALE = 9
# Ends a text of any length. Lower than every hexadecimal digit, so that a prefix comes before what it begins.
_END = "' '"


def quoted(name: str) -> str:
    """A column's name as an identifier, also where it is a reserved word."""
    return f"`{name}`"


def value_expressions(table: TableContract) -> list[str]:
    """What orders the rows of one key and one snapshot id, greatest first when each is descending.

    Two rows whose expressions are pairwise not distinct have the same values.
    """
    return [leaf for column in table.value_columns for leaf in _leaves(column, quoted(column.name))]


def key_text(table: TableContract) -> str:
    """A key as text for people, `name=value, …`, without the date (unless that is the whole key).

    The columns are `key_1`, `key_2`, … in the order of the contract's keys.
    """
    named = [(f"key_{number}", name) for number, name in enumerate(table.keys, start=1)]
    shown = [item for item in named if item[1] != table.partition_column] or named
    parts: list[str] = []
    for number, (path, name) in enumerate(shown):
        text = f"TO_HEX({path})" if table.column(name).type == "BYTES" else f"CAST({path} AS STRING)"
        parts += [f"'{', ' if number else ''}{name}='", text]
    return f"CONCAT({', '.join(parts)})"


def _leaves(column: Column, path: str) -> Iterator[str]:
    if column.mode is ColumnMode.REPEATED:
        yield _array_text(column, path, 1)
    elif column.fields:
        yield f"({path} IS NOT NULL)"
        for field in column.fields:
            yield from _leaves(field, f"{path}.{quoted(field.name)}")
    elif column.type == "FLOAT64":
        yield f"IFNULL(IS_NAN({path}), FALSE)"
        yield f"IF(IS_NAN({path}), 0, {path})"
    else:
        yield path


def _array_text(column: Column, path: str, depth: int) -> str:
    """NULL for an empty array, which BigQuery does not tell from a missing one."""
    element, position = f"element_{depth}", f"position_{depth}"
    one = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
    return (
        f"(SELECT STRING_AGG({_text(one, element, depth)}, '' ORDER BY {position}) "
        f"FROM UNNEST({path}) AS {element} WITH OFFSET AS {position})"
    )


def _text(column: Column, path: str, depth: int) -> str:
    """A text of a value such that texts, one after the other, compare as the values do. None is another's prefix."""
    if column.mode is ColumnMode.REPEATED:
        return f"CONCAT(IFNULL({_array_text(column, path, depth + 1)}, ''), {_END})"
    if column.fields:
        texts = ", ".join(_text(field, f"{path}.{quoted(field.name)}", depth) for field in column.fields)
        return f"IF({path} IS NULL, '0', CONCAT('1', {texts}))"
    return f"IF({path} IS NULL, '0', CONCAT('1', {_scalar_text(column.type, path)}))"


def _scalar_text(kind: str, path: str) -> str:
    match kind:
        case "INT64":
            return _integer_text(path)
        case "DATE":
            return _integer_text(f"UNIX_DATE({path})")
        case "TIMESTAMP":
            return _integer_text(f"UNIX_MICROS({path})")
        case "DATETIME":
            return _integer_text(f"UNIX_MICROS(TIMESTAMP({path}))")
        case "NUMERIC":
            return _numeric_text(path)
        case "BOOL":
            return f"IF({path}, '1', '0')"
        case "STRING":
            return f"TO_HEX(CAST({path} AS BYTES)), {_END}"
        case "BYTES":
            return f"TO_HEX({path}), {_END}"
    raise ValueError(f"[{kind}] has no text in SQL that keeps its order")  # settings refuse such a feed


def _integer_text(path: str) -> str:
    """A digit for the sign, then nineteen: negative numbers are counted from the least."""
    counted = f"IF({path} < 0, {path} + 9223372036854775807 + 1, {path})"
    return f"IF({path} < 0, '0', '1'), LPAD(CAST({counted} AS STRING), 19, '0')"


def _numeric_text(path: str) -> str:
    """A digit for the sign, then the digits before and after the point: negative numbers are counted from the least."""
    counted = f"SPLIT(CAST(IF({path} < 0, {_GREATEST_NUMERIC} + {path}, {path}) AS STRING), '.')"
    return (
        f"IF({path} < 0, '0', '1'), LPAD({counted}[OFFSET(0)], {_NUMERIC_INTEGER_DIGITS}, '0'), "
        f"RPAD(IFNULL({counted}[SAFE_OFFSET(1)], ''), {_NUMERIC_SCALE}, '0')"
    )
