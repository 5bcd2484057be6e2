"""Parses types and column lists of DDL and DECLARE: `ARRAY<STRUCT<a INT64 NOT NULL OPTIONS(…), b STRING>>`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField, canonical_type, is_type_name
from bigquery_standin.sql.tokens import TokenCursor, line_and_column, tokenize
from bigquery_standin.sql.type_parameters import checked_parameters

_COLUMN_CLAUSES = ("COLLATE", "DEFAULT", "REFERENCES", "GENERATED", "AS", "CONSTRAINT")
_API_ONLY_NAMES = ("FLOAT", "RECORD")  # SQL says FLOAT64 and STRUCT<…>; INTEGER and BOOLEAN are names in both
_TABLE_CONSTRAINTS = (("FOREIGN", "KEY"), ("CONSTRAINT",))


def parse_columns(cursor: TokenCursor) -> tuple[tuple[TableField, ...], tuple[str, ...]]:
    """Parses `(name type …, …, PRIMARY KEY (name, …) NOT ENFORCED)`. Returns the columns and the primary key."""
    cursor.expect("(")
    columns: list[TableField] = []
    keys: list[tuple[str, ...]] = []
    while not cursor.at(")"):
        if cursor.at("PRIMARY", "KEY"):
            keys.append(parse_primary_key(cursor))
            if not cursor.accept(","):
                break
            continue
        for words in _TABLE_CONSTRAINTS:
            if cursor.at(*words) and not _names_a_column(cursor, words):
                raise NotImplementedConstruct(f"table constraint {' '.join(words)}")
        columns.append(_parse_column(cursor, keys))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    _refuse_repeated_names(columns, "column", "CREATE TABLE")
    if len(keys) > 1:
        raise InvalidQuery("CREATE TABLE has more than one PRIMARY KEY")
    return tuple(columns), keys[0] if keys else ()


def parse_primary_key(cursor: TokenCursor) -> tuple[str, ...]:
    """Parses `PRIMARY KEY (name, …) NOT ENFORCED`. BigQuery has no enforced keys."""
    cursor.expect("PRIMARY", "KEY")
    cursor.expect("(")
    columns = cursor.comma_separated(cursor.identifier)
    cursor.expect(")")
    cursor.expect("NOT", "ENFORCED")
    return tuple(columns)


def parse_type(cursor: TokenCursor, name: str = "") -> TableField:
    """Parses the type of the column `name`; "" for a type without a column."""
    start = cursor.current
    if cursor.accept("ARRAY"):
        return _parse_array(cursor, name)
    if cursor.accept("STRUCT"):
        return TableField(name, "STRUCT", fields=_parse_struct_fields(cursor))
    type_name = cursor.identifier().upper()
    try:
        if type_name in _API_ONLY_NAMES:
            raise Invalid(f"{type_name} is the name of a type in the REST API only")
        canonical = canonical_type(type_name)
    except Invalid as error:
        assert start is not None  # identifier() has read this token
        raise InvalidQuery(f"Type not found: {type_name}", *line_and_column(cursor.text, start.start)) from error
    return TableField(name, canonical, parameters=_parse_parameters(cursor, canonical))


def parse_type_without_parameters(cursor: TokenCursor, what: str) -> TableField:
    """Parses the type of a variable or an argument (`what`).

    Raises NotImplementedConstruct for a parameterized type, such as STRING(10).
    """
    field = parse_type(cursor)
    if field.has_parameters:
        raise NotImplementedConstruct(f"parameterized type {field.sql_type(parameterized=True)} of {what}")
    return field


def _parse_parameters(cursor: TokenCursor, type_name: str) -> tuple[int, ...]:
    if not cursor.accept("("):
        return ()
    given = cursor.comma_separated(cursor.integer)
    cursor.expect(")")
    try:
        return checked_parameters(type_name, tuple(given))
    except Invalid as error:
        raise InvalidQuery(error.message) from error


def field_of_type(text: str) -> TableField:
    """A field without a name that has the type in the SQL text, such as `ARRAY<INT64>`."""
    cursor = TokenCursor(text, tokenize(text))
    field = parse_type(cursor)
    if not cursor.at_end():
        raise cursor.unexpected("Expected end of type")
    return field


def _parse_array(cursor: TokenCursor, name: str) -> TableField:
    cursor.expect("<")
    element = parse_type(cursor, name)
    if element.mode == "REPEATED":
        raise InvalidQuery("Cannot construct array with element type ARRAY<…> because nested arrays are not supported")
    cursor.expect(">")
    return replace(element, mode="REPEATED")


def _parse_struct_fields(cursor: TokenCursor) -> tuple[TableField, ...]:
    cursor.expect("<")
    fields = cursor.comma_separated(lambda: _parse_column(cursor))
    cursor.expect(">")
    _refuse_repeated_names(fields, "field", "STRUCT")
    return tuple(fields)


def _parse_column(cursor: TokenCursor, keys: list[tuple[str, ...]] | None = None) -> TableField:
    """Parses one column. If it is declared as the primary key, that key is added to `keys`.

    `keys`: None for a field of a STRUCT, which cannot be a primary key.
    """
    token = cursor.current
    if token is None or token.token_type is TokenType.STRING:
        raise cursor.unexpected("Expected column name")
    column = parse_type(cursor, cursor.identifier())
    while True:
        if cursor.accept("PRIMARY", "KEY"):
            cursor.expect("NOT", "ENFORCED")
            if keys is None:
                raise InvalidQuery(f"PRIMARY KEY on a STRUCT field is not supported: {column.name}")
            keys.append((column.name,))
        elif cursor.accept("NOT"):
            cursor.expect("NULL")
            if column.mode == "REPEATED":
                raise InvalidQuery(f"NOT NULL cannot be applied to ARRAY field: {column.name}")
            column = replace(column, mode="REQUIRED")
        elif cursor.at("OPTIONS"):
            column = replace(column, description=_parse_description(cursor, column.name))
        elif cursor.word() in _COLUMN_CLAUSES:
            raise NotImplementedConstruct(f"column clause {cursor.word()} of {column.name}")
        else:
            return column


def _parse_description(cursor: TokenCursor, column: str) -> str | None:
    cursor.expect("OPTIONS", "(")
    description: str | None = None
    while True:
        option = cursor.identifier().lower()
        if option != "description":
            raise NotImplementedConstruct(f"column option {option} of {column}")
        cursor.expect("=")
        description = None if cursor.accept("NULL") else cursor.string()
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return description


def _names_a_column(cursor: TokenCursor, words: tuple[str, ...]) -> bool:
    """Whether CONSTRAINT, which is no reserved word, is here a column's name: a type follows."""
    return words == ("CONSTRAINT",) and is_type_name(cursor.word(1))


def _refuse_repeated_names(columns: list[TableField], kind: str, place: str) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise InvalidQuery(f"Duplicate {kind} name {column.name} in {place}")
        seen.add(column.name.lower())
