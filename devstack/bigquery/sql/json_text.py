"""Makes BigQuery's JSON (TO_JSON_STRING) from DuckDB's JSON and type name, where the two encode a value differently.

Source: BigQuery's "JSON functions", JSON encodings.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import duckdb
from duckdb.func import SPECIAL

FUNCTION = "_bigquery_json"  # the name of `json_text` in DuckDB
_EXACT_INTEGERS = 1 << 53  # numbers beyond it are quoted, because many JSON readers would lose digits
_FIELD_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s(),\[\]]+)')  # quoted or plain
_SCALAR = re.compile(r'"NULL"|[A-Z][A-Z0-9_ ]*(?:\([0-9, ]*\))?')  # "NULL": the type of an untyped NULL
_BLOB_ITEM = re.compile(rb"\\x([0-9A-F]{2})|(.)", re.DOTALL)


@dataclass(frozen=True)
class _DuckDbType:
    """A DuckDB type: a scalar's name, a list of `element`, or a struct of `fields`."""

    name: str
    element: _DuckDbType | None = None
    fields: Mapping[str, _DuckDbType] = field(default_factory=dict)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds the function to the connection."""
    connection.create_function(FUNCTION, json_text, ["VARCHAR", "VARCHAR"], "VARCHAR", null_handling=SPECIAL)


def json_text(document: str | None, type_name: str) -> str:
    """BigQuery's JSON of a value, from the value's `to_json` and `typeof` in DuckDB.

    Raises ValueError for the name of a type that it does not understand, such as a MAP.
    """
    value = None if document is None else json.loads(document, parse_int=str, parse_float=str, parse_constant=str)
    return _encode(value, _parse_whole_type(type_name))


def _encode(value: Any, kind: _DuckDbType) -> str:
    if value is None:
        return "null"
    if kind.element is not None:
        element = kind.element
        return f"[{','.join(_encode(item, element) for item in value)}]"
    if kind.fields:
        items = (f"{_quoted(name)}:{_encode(value[name], inner)}" for name, inner in kind.fields.items())
        return f"{{{','.join(items)}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _scalar(str(value), kind.name.partition("(")[0])


def _scalar(text: str, name: str) -> str:
    match name:
        case "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT" | "HUGEINT":
            return _exact_number(text)
        case "DECIMAL":
            return _exact_number(re.sub(r"\.?0+$", "", text) if "." in text else text)
        case "FLOAT" | "DOUBLE":
            return _float(text)
        case "TIMESTAMP WITH TIME ZONE":
            return _quoted(_fraction(text.removesuffix("+00").replace(" ", "T")) + "Z")
        case "TIMESTAMP" | "TIME":
            return _quoted(_fraction(text.replace(" ", "T")))
        case "BLOB":
            items = _BLOB_ITEM.finditer(text.encode())
            content = b"".join(bytes.fromhex(item[1].decode()) if item[1] else item[2] for item in items)
            return _quoted(base64.b64encode(content).decode())
    return _quoted(text)


def _exact_number(text: str) -> str:
    is_plain = re.fullmatch(r"-?\d+", text) is not None and abs(int(text)) <= _EXACT_INTEGERS
    return text if is_plain else _quoted(text)


def _float(text: str) -> str:
    value = float(text)
    if value != value or abs(value) == float("inf"):
        return _quoted(text)
    if value == 0:
        return "0"
    short = f"{value:.15g}"
    return short if float(short) == value else f"{value:.17g}"


def _fraction(text: str) -> str:
    """The text with its fraction of a second filled up to three or six digits; unchanged if it has no fraction."""
    whole, dot, digits = text.partition(".")
    return f"{whole}{dot}{digits.ljust(3 if len(digits) <= 3 else 6, '0')}" if dot else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@lru_cache(maxsize=256)
def _parse_whole_type(text: str) -> _DuckDbType:
    kind, end = _parse_type(text, 0)
    if end != len(text):
        raise ValueError(f"DuckDB type [{text}] is not understood from position [{end}] on")
    return kind


def _parse_type(text: str, position: int) -> tuple[_DuckDbType, int]:
    if text.startswith("STRUCT(", position):
        kind, position = _parse_struct(text, position + len("STRUCT("))
    else:
        scalar = _SCALAR.match(text, position)
        if scalar is None:
            raise ValueError(f"DuckDB type [{text}] is not understood from position [{position}] on")
        kind, position = _DuckDbType(scalar[0].strip()), scalar.end()
    while text.startswith("[]", position):
        kind, position = _DuckDbType("LIST", element=kind), position + 2
    return kind, position


def _parse_struct(text: str, position: int) -> tuple[_DuckDbType, int]:
    fields: dict[str, _DuckDbType] = {}
    while True:
        name = _FIELD_NAME.match(text, position)
        if name is None:
            raise ValueError(f"DuckDB type [{text}] is not understood from position [{position}] on")
        kind, position = _parse_type(text, name.end() + 1)
        fields[name[2] if name[2] is not None else name[1].replace('""', '"')] = kind
        if not text.startswith(", ", position):
            return _DuckDbType("STRUCT", fields=fields), position + 1
        position += 2
