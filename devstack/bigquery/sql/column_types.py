"""Types and column lists as DDL and DECLARE write them: `ARRAY<STRUCT<a INT64 NOT NULL OPTIONS(…), b STRING>>`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from devstack.bigquery.errors import Invalid, InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.statements import ColumnSpec
from devstack.bigquery.sql.tokens import Cursor, place, tokenize
from devstack.bigquery.sql.types import TableField, canonical_type

_COLUMN_CLAUSES = ("COLLATE", "DEFAULT", "PRIMARY", "REFERENCES", "GENERATED", "AS", "CONSTRAINT")
_TABLE_CONSTRAINTS = (("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("CONSTRAINT",))


def take_columns(cursor: Cursor) -> tuple[ColumnSpec, ...]:
    """Step over `(name type …, …)`."""
    cursor.expect("(")
    columns: list[ColumnSpec] = []
    while not cursor.at(")"):
        for words in _TABLE_CONSTRAINTS:
            if cursor.at(*words) and not _names_a_column(cursor, words):
                raise NotImplementedConstruct(f"table constraint {' '.join(words)}")
        columns.append(_take_column(cursor))
        if not cursor.take(","):
            break
    cursor.expect(")")
    _refuse_repeated_names(columns)
    return tuple(columns)


def take_type(cursor: Cursor, name: str = "") -> ColumnSpec:
    """Step over one type."""
    start = cursor.current
    if cursor.take("ARRAY"):
        return _take_array(cursor, name)
    if cursor.take("STRUCT"):
        return ColumnSpec(name, "STRUCT", fields=_take_struct_fields(cursor))
    written = cursor.identifier().upper()
    if cursor.at("("):
        raise NotImplementedConstruct(f"parameterized type {written}(…)")
    try:
        return ColumnSpec(name, canonical_type(written))
    except Invalid as error:
        assert start is not None  # identifier() has stepped over it
        raise InvalidQuery(f"Type not found: {written}", *place(cursor.text, start.start)) from error


def field_of_type(text: str) -> TableField:
    """The (unnamed) field of a type's text, such as the `type_name` of a DECLARE: `ARRAY<INT64>`."""
    cursor = Cursor(text, tokenize(text))
    spec = take_type(cursor)
    if not cursor.at_end():
        raise cursor.unexpected("Expected end of type")
    return field_of_column(spec)


def field_of_column(spec: ColumnSpec) -> TableField:
    """The schema field that a column definition makes."""
    fields = tuple(field_of_column(child) for child in spec.fields)
    return TableField(spec.name, spec.type_name, spec.mode, fields, spec.description)


def _take_array(cursor: Cursor, name: str) -> ColumnSpec:
    cursor.expect("<")
    element = take_type(cursor, name)
    if element.mode == "REPEATED":
        raise InvalidQuery("Cannot construct array with element type ARRAY<…> because nested arrays are not supported")
    cursor.expect(">")
    return replace(element, mode="REPEATED")


def _take_struct_fields(cursor: Cursor) -> tuple[ColumnSpec, ...]:
    cursor.expect("<")
    fields = [_take_column(cursor)]
    while cursor.take(","):
        fields.append(_take_column(cursor))
    cursor.expect(">")
    _refuse_repeated_names(fields)
    return tuple(fields)


def _take_column(cursor: Cursor) -> ColumnSpec:
    token = cursor.current
    if token is None or token.token_type is TokenType.STRING:
        raise cursor.unexpected("Expected column name")
    column = take_type(cursor, cursor.identifier())
    while True:
        if cursor.take("NOT"):
            cursor.expect("NULL")
            if column.mode == "REPEATED":
                raise InvalidQuery(f"NOT NULL cannot be applied to ARRAY field: {column.name}")
            column = replace(column, mode="REQUIRED")
        elif cursor.at("OPTIONS"):
            column = replace(column, description=_take_description(cursor, column.name))
        elif cursor.word() in _COLUMN_CLAUSES:
            raise NotImplementedConstruct(f"column clause {cursor.word()} of {column.name}")
        else:
            return column


def _take_description(cursor: Cursor, column: str) -> str | None:
    cursor.expect("OPTIONS", "(")
    description: str | None = None
    while True:
        option = cursor.identifier().lower()
        if option != "description":
            raise NotImplementedConstruct(f"column option {option} of {column}")
        cursor.expect("=")
        description = None if cursor.take("NULL") else cursor.string()
        if not cursor.take(","):
            break
    cursor.expect(")")
    return description


def _names_a_column(cursor: Cursor, words: tuple[str, ...]) -> bool:
    return words == ("CONSTRAINT",) and cursor.word(1) in ("INT64", "STRING", "DATE", "BOOL", "FLOAT64")


def _refuse_repeated_names(columns: list[ColumnSpec]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise InvalidQuery(f"Duplicate column name {column.name} in CREATE TABLE")
        seen.add(column.name.lower())
