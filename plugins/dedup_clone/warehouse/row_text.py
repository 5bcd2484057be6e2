"""The canonical text of a row as a SQL expression: equal for two rows exactly when all their values are equal.

`audit/row_text.py` makes the same text of a file's rows; both must change together. Each value is text that ends where
the next begins, so that no two rows share one: NULL `n;`, a scalar `…;`, a STRUCT `(…)`, an array `2[…]`. Every form is
one that BigQuery defines to the last character. TO_JSON_STRING is not: how many digits it gives a FLOAT64 is its own
affair, it does not tell NaN from the text "NaN", and JSON escapes would have to be imitated.
Two differences do not count, for BigQuery's own answers do not show them: a NULL array is an empty one, and a zero has
no sign.
"""

from __future__ import annotations

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.warehouse.row_expressions import quoted


def row_text(table: TableContract) -> str:
    """The text of one row of the table, never NULL."""
    values = ",\n      ".join(_value(column, quoted(column.name), 1) for column in table.columns)
    return f"CONCAT(\n      {values}\n    )"


def _value(column: Column, path: str, depth: int) -> str:
    if column.mode is ColumnMode.REPEATED:
        return _array(column, path, depth)
    if column.fields:
        fields = ", ".join(_value(field, f"{path}.{quoted(field.name)}", depth) for field in column.fields)
        return f"IF({path} IS NULL, 'n;', CONCAT('(', {fields}, ')'))"
    return f"CONCAT(IFNULL({_scalar(column.type, path)}, 'n'), ';')"


def _array(column: Column, path: str, depth: int) -> str:
    element, position = f"element_{depth}", f"position_{depth}"
    one = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
    return (
        f"CONCAT(CAST(IFNULL(ARRAY_LENGTH({path}), 0) AS STRING), '[', IFNULL("
        f"(SELECT STRING_AGG({_value(one, element, depth + 1)}, '' ORDER BY {position}) "
        f"FROM UNNEST({path}) AS {element} WITH OFFSET AS {position}), ''), ']')"
    )


def _scalar(kind: str, path: str) -> str:
    """NULL for NULL."""
    match kind:
        case "BOOL" | "INT64" | "NUMERIC":
            return f"CAST({path} AS STRING)"
        case "DATE":
            return f"CAST(UNIX_DATE({path}) AS STRING)"
        case "TIMESTAMP":
            return f"CAST(UNIX_MICROS({path}) AS STRING)"
        case "DATETIME":
            return f"CAST(UNIX_MICROS(TIMESTAMP({path})) AS STRING)"
        case "FLOAT64":
            # Seventeen digits tell every number from its neighbours.
            return f"CASE WHEN IS_NAN({path}) THEN 'nan' WHEN {path} = 0 THEN '0' ELSE FORMAT('%.16e', {path}) END"
        case "STRING":
            return f"CONCAT(CAST(BYTE_LENGTH({path}) AS STRING), ':', {path})"
        case "BYTES":
            return f"TO_HEX({path})"
    raise ValueError(f"[{kind}] has no canonical text")  # settings know no such type
