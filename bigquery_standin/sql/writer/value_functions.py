"""Writes the functions of text and structs that need more than a macro in `functions.sql`."""

from __future__ import annotations

import re

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.runtime_errors import string_literal
from bigquery_standin.sql.writer.columns_and_structs import struct_sql
from bigquery_standin.sql.writer.function_calls import special_function
from bigquery_standin.sql.writer.node_writer import PARAMETERS, Writer, invalid_call, literal_text

_FORMAT_ITEM = re.compile(r"%(?P<flags>[^a-zA-Z%]*)(?P<kind>[a-zA-Z%]|\Z)")
_PRECISION = re.compile(r"\.\d{1,2}")


@special_function("STRUCT")
def _struct(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    return struct_sql(writer, arguments)


@special_function("REGEXP_EXTRACT")
def _regexp_extract(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) < 2:
        raise invalid_call(name, len(arguments), "2 to 4")
    if len(arguments) > 2:
        raise NotImplementedConstruct("REGEXP_EXTRACT with a position")
    pattern = literal_text(writer, arguments[1], "REGEXP_EXTRACT pattern")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise NotImplementedConstruct(f"REGEXP_EXTRACT pattern [{pattern}] ({error})") from error
    if groups > 1:
        raise InvalidQuery(
            "Regular expressions passed into extraction functions must not have more than 1 capturing group"
        )
    text, expression = writer.write(arguments[0]), string_literal(pattern)
    # Unlike DuckDB's regexp_extract, this function gives NULL for a group that took no part in the match.
    found = f"regexp_extract_all({text}, {expression}, {groups})[1]"
    return f"CASE WHEN regexp_matches({text}, {expression}) THEN {found} END"


@special_function("FORMAT")
def _format(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    """Supports %s, %d and %t without flags, %e with a precision, and %%."""
    if not arguments:
        raise invalid_call(name, 0, "1 or more")
    values = writer.write_all(arguments[1:])
    template = literal_text(writer, arguments[0], "FORMAT text")
    if writer.check_only and isinstance(arguments[0], PARAMETERS):
        return "NULL"
    pieces, position, used = [], 0, 0
    for item in _FORMAT_ITEM.finditer(template):
        pieces.append(string_literal(template[position : item.start()]))
        position = item.end()
        if item["kind"] == "%":
            pieces.append("'%'")
            continue
        is_scientific = item["kind"] == "e" and _PRECISION.fullmatch(item["flags"])
        if not is_scientific and (item["flags"] or item["kind"] not in ("s", "d", "t")):
            raise NotImplementedConstruct(f"FORMAT element {item.group()}")
        if used == len(values):
            raise InvalidQuery(f"Too few arguments to FORMAT for pattern [{template}]")
        element = f"{string_literal(item.group())}, " if is_scientific else ""
        pieces.append(f"own_format_{item['kind']}({element}{values[used]})")
        used += 1
    if used != len(values):
        raise InvalidQuery(f"Too many arguments to FORMAT for pattern [{template}]: [{len(values)}], expected [{used}]")
    pieces.append(string_literal(template[position:]))
    return f"({' || '.join(pieces)})"
