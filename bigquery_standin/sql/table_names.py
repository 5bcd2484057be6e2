"""Parses names of tables, datasets, connections and INFORMATION_SCHEMA views, quoted as a whole or in parts."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.statements import TableName
from bigquery_standin.sql.tokens import TokenCursor, line_and_column

INFORMATION_SCHEMA = "INFORMATION_SCHEMA"
REGION_PREFIX = "region-"
REGIONAL_VIEWS = ("JOBS",)  # their dataset is a region, such as `region-us`
_TABLE = re.compile(r"[\w\- ]{1,1024}\Z")
_DATASET = re.compile(r"\w{1,1024}\Z")
_PROJECT = re.compile(r"(?:[a-z0-9.\-]+:)?[a-z][a-z0-9\-]*\Z")


def parse_table_name(cursor: TokenCursor) -> TableName:
    start = cursor.current
    return table_name(_parse_path(cursor), cursor, start)


def parse_dataset_name(cursor: TokenCursor) -> tuple[str | None, str]:
    """Returns the project (None if it is not written) and the dataset."""
    start = cursor.current
    parts = _parse_path(cursor)
    if not 1 <= len(parts) <= 2 or not _DATASET.match(parts[-1]):
        raise _invalid("dataset", parts, cursor, start)
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def parse_connection_name(cursor: TokenCursor) -> tuple[str, str, str]:
    """Returns the project, the location and the id of a connection, which must all be written."""
    start = cursor.current
    parts = _parse_path(cursor)
    if len(parts) != 3 or not all(parts):
        message = f"Invalid connection name [{'.'.join(parts)}]: expected PROJECT.LOCATION.CONNECTION"
        raise InvalidQuery(message, *(line_and_column(cursor.text, start.start) if start else ()))
    return parts[0], parts[1], parts[2]


def table_name(parts: list[str], cursor: TokenCursor | None = None, start: Token | None = None) -> TableName:
    """A name from its parts. `cursor`, `start`: where it begins, for the position in an error.

    Raises InvalidQuery for a wrong name and for a partition decorator, NotImplementedConstruct for a wildcard table and
    for an unsupported path to an INFORMATION_SCHEMA view.
    """
    path = ".".join(parts)
    upper = [part.upper() for part in parts]
    if INFORMATION_SCHEMA in upper:
        return _information_schema(parts, upper.index(INFORMATION_SCHEMA))
    if parts[-1].endswith("*"):
        raise NotImplementedConstruct(f"wildcard table {path}")
    if "$" in parts[-1]:
        raise InvalidQuery(
            f"Table name [{path}] has a partition decorator, which SQL does not accept: filter on the partition column."
        )
    valid = len(parts) <= 3 and _TABLE.match(parts[-1]) and (len(parts) < 2 or _DATASET.match(parts[-2]))
    if not valid or (len(parts) == 3 and not _PROJECT.match(parts[0])):
        raise _invalid("table", parts, cursor, start)
    padded: list[str | None] = [None] * (3 - len(parts)) + list(parts)
    return TableName(str(padded[2]), padded[1], padded[0])


def table_name_of(node: exp.Table) -> TableName:
    """The name of a table in a FROM clause. Raises as `table_name` does, and NotImplementedConstruct for a function."""
    parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
    if len(parts) != len(node.parts):
        raise NotImplementedConstruct(f"table function {node.this.name.upper()}")
    return table_name([piece for part in parts for piece in part.name.split(".")])


def _information_schema(parts: list[str], at: int) -> TableName:
    """The name of a view: its `table` is `INFORMATION_SCHEMA.VIEW`, its `dataset` a dataset or a region.

    `at`: which part is INFORMATION_SCHEMA, from 0.
    """
    view = ".".join(part.upper() for part in parts[at:])
    is_regional = at > 0 and parts[at - 1].lower().startswith(REGION_PREFIX)
    if at == 0 or len(parts) - at != 2 or at > 2 or is_regional != (parts[-1].upper() in REGIONAL_VIEWS):
        raise NotImplementedConstruct(
            f"{'.'.join(parts)} (only DATASET.INFORMATION_SCHEMA.VIEW, and {', '.join(REGIONAL_VIEWS)} of a region)"
        )
    return TableName(view, parts[at - 1], parts[0] if at == 2 else None)


def _parse_path(cursor: TokenCursor) -> list[str]:
    parts: list[str] = []
    while True:
        token = cursor.current
        if token is not None and token.token_type is TokenType.IDENTIFIER:
            parts += cursor.identifier().split(".")
        else:
            parts.append(_parse_dashed_name(cursor, may_have_dashes=not parts))
        if not cursor.accept("."):
            return parts


def _parse_dashed_name(cursor: TokenCursor, *, may_have_dashes: bool) -> str:
    """Parses a name. A project's name may contain dashes without spaces around them, as in `local-dev`."""
    name, end = cursor.identifier(), cursor.tokens[cursor.position - 1].end
    while may_have_dashes and (token := cursor.current) is not None and token.text == "-" and token.start == end + 1:
        following = cursor.tokens[cursor.position + 1] if cursor.position + 1 < len(cursor.tokens) else None
        if following is None or following.start != token.end + 1:
            break
        cursor.position += 2
        name, end = f"{name}-{following.text}", following.end
    return name


def _invalid(kind: str, parts: list[str], cursor: TokenCursor | None, start: Token | None) -> InvalidQuery:
    expected = "[PROJECT.]DATASET" if kind == "dataset" else "[PROJECT.]DATASET.TABLE or a part of it"
    message = f"Invalid {kind} name [{'.'.join(parts)}]: expected {expected}"
    if cursor is None or start is None:
        return InvalidQuery(message)
    return InvalidQuery(message, *line_and_column(cursor.text, start.start))
