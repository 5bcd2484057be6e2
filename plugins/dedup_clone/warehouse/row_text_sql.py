"""The canonical text of a row, as a SQL expression: two rows have equal texts if and only if all values are equal.

Each value has a form that shows where it ends, so that different rows never have the same text: NULL is `n;`, a scalar
`…;`, a STRUCT `(…)`, an array `2[…]` with its length. BigQuery's documentation defines every form exactly.

TO_JSON_STRING is not used: its digits of a FLOAT64 are not defined, and it writes NaN and the text "NaN" alike.
Two differences are ignored, since query results do not show them: between NULL and empty arrays, and in the sign of
zero.
"""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.warehouse.row_expressions import quoted


def row_text(table: TableContract) -> str:
    """The expression for the text of one row, which is never NULL."""
    arguments = ",\n      ".join(_value(column, quoted(column.name), 1) for column in table.columns)
    return f"CONCAT(\n      {arguments}\n    )"


def as_in_files(table: TableContract) -> TableContract:
    """The table as BigQuery reads it from Parquet files without a schema: DATETIME is TIMESTAMP there.

    "Loading Parquet data from Cloud Storage", type conversions. A row has the same text in both.
    """
    return replace(table, columns=tuple(_as_in_files(column) for column in table.columns))


def _as_in_files(column: Column) -> Column:
    type_in_files = "TIMESTAMP" if column.type == "DATETIME" else column.type
    return replace(column, type=type_in_files, fields=tuple(_as_in_files(field) for field in column.fields))


def _value(column: Column, path: str, depth: int) -> str:
    """The expression for the text of one value. `depth`: one more than the number of arrays that contain the value."""
    if column.mode is ColumnMode.REPEATED:
        return _array(column, path, depth)
    if column.fields:
        field_texts = ", ".join(_value(field, f"{path}.{quoted(field.name)}", depth) for field in column.fields)
        return f"IF({path} IS NULL, 'n;', CONCAT('(', {field_texts}, ')'))"
    return f"CONCAT(IFNULL({_scalar(column.type, path)}, 'n'), ';')"


def _array(column: Column, path: str, depth: int) -> str:
    element, position = f"element_{depth}", f"position_{depth}"
    element_column = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
    return (
        f"CONCAT(CAST(IFNULL(ARRAY_LENGTH({path}), 0) AS STRING), '[', IFNULL("
        f"(SELECT STRING_AGG({_value(element_column, element, depth + 1)}, '' ORDER BY {position}) "
        f"FROM UNNEST({path}) AS {element} WITH OFFSET AS {position}), ''), ']')"
    )


def _scalar(column_type: str, path: str) -> str:
    """The expression for a scalar's text; it is NULL if the scalar is NULL."""
    match column_type:
        case "BOOL" | "INT64" | "NUMERIC":
            return f"CAST({path} AS STRING)"
        case "DATE":
            return f"CAST(UNIX_DATE({path}) AS STRING)"
        case "TIMESTAMP":
            return f"CAST(UNIX_MICROS({path}) AS STRING)"
        case "DATETIME":
            return f"CAST(UNIX_MICROS(TIMESTAMP({path}, 'UTC')) AS STRING)"
        case "FLOAT64":
            # Seventeen digits distinguish every number from its neighbours.
            return f"CASE WHEN IS_NAN({path}) THEN 'nan' WHEN {path} = 0 THEN '0' ELSE FORMAT('%.16e', {path}) END"
        case "STRING":
            return f"CONCAT(CAST(BYTE_LENGTH({path}) AS STRING), ':', {path})"
        case "BYTES":
            return f"TO_HEX({path})"
    raise ValueError(f"[{column_type}] has no canonical text")  # settings allow no other type
