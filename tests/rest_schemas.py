"""Validates requests with Google's descriptions of its REST APIs, which the package googleapiclient contains.

Services silently ignore unknown fields, so a misspelt option has no effect. Here an unknown field is a fault: in the
path, the query, the body or the list of requested fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

# Parameters that Google's own clients send although they are not in the description.
_SENT_BY_CLIENTS = {("bigquery.jobs.get", "projection"), ("bigquery.jobs.cancel", "projection")}
_UPLOAD_PARAMETERS = {"uploadType", "upload_id", "upload_protocol"}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@cache
def described(api: str) -> Api:
    """The description of the API with this name and version, such as `bigquery.v2`."""
    text = resources.files("googleapiclient") / "discovery_cache" / "documents" / f"{api}.json"
    return Api(json.loads(text.read_text(encoding="utf-8")))


class Api:
    """The description of one API. Faults are sentences that say where a request is wrong and what was expected."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._schemas = document["schemas"]
        self._methods = list(_methods(document))

    def faults(self, verb: str, url: str, body: Any = None) -> list[str]:
        """The faults of a request. `body`: the JSON that is sent, None if there is none."""
        parts = urlsplit(url)
        method = self._method(verb, parts.path)
        if method is None:
            return [f"no method of the API is {verb} {parts.path}"]
        found = []
        parameters = {**self._document["parameters"], **method.get("parameters", {})}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name == "fields":
                found += self._mask_faults(value, method.get("response", {}).get("$ref"))
            elif (method["id"], name) in _SENT_BY_CLIENTS:
                continue
            elif name not in parameters and name not in _UPLOAD_PARAMETERS:
                found.append(f"query parameter [{name}] of {method['id']} is not known")
            elif name in parameters:
                found += _scalar_faults(parameters[name], value, f"query parameter [{name}]")
        if body is not None:
            if "request" not in method:
                return [*found, f"{method['id']} takes no body"]
            found += self.message_faults(method["request"]["$ref"], body)
        return found

    def message_faults(self, schema: str, value: Any) -> list[str]:
        """The faults of `value` as a message of the type `schema`, a name in the description."""
        return list(self._value_faults({"$ref": schema}, value, schema))

    def _method(self, verb: str, path: str) -> Mapping[str, Any] | None:
        return next((m for pattern, m in self._methods if m["httpMethod"] == verb and pattern.fullmatch(path)), None)

    def _value_faults(self, schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        kind = schema.get("type")
        if value is None or kind == "any":
            return
        if kind == "object":
            yield from self._object_faults(schema, value, where)
        elif kind == "array":
            if not isinstance(value, list):
                yield f"[{where}] is {value!r}, expected a list"
                return
            for item in value:
                yield from self._value_faults(schema["items"], item, where)
        else:
            yield from _scalar_faults(schema, value, where)

    def _object_faults(self, schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"[{where}] is {value!r}, expected an object"
            return
        properties, schema_of_others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in value.items():
            inner_schema = properties.get(name, schema_of_others)
            if inner_schema is None:
                yield f"[{where}.{name}] is not known"
            else:
                yield from self._value_faults(inner_schema, inner, f"{where}.{name}")

    def _mask_faults(self, mask: str, schema: str | None) -> list[str]:
        """The faults of a field mask, such as `items(name,size),nextPageToken`: names that the answer does not have.

        `schema`: the name of the answer's type.
        """
        found = []
        for path in _paths(mask):
            field: Mapping[str, Any] | None = {"$ref": schema}
            for name in path:
                field = self._field(field, name) if field else None
            if field is None:
                found.append(f"field [{'.'.join(path)}] is not in the answer")
        return found

    def _field(self, schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """The schema of a field of an object, or of the objects in an array; None if there is no such field."""
        while "$ref" in schema or schema.get("type") == "array":
            schema = self._schemas[schema["$ref"]] if "$ref" in schema else schema["items"]
        found = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        return schema if name == "*" else found


def _methods(node: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Iterator[tuple[re.Pattern[str], Any]]:
    """The pattern of the paths, and the description, of each method of the API or of one of its resources."""
    document = root or node
    for method in node.get("methods", {}).values():
        base = f"/{document['servicePath']}"
        paths = [f"{base}{method.get('flatPath', method['path'])}"]
        if method.get("useMediaDownloadService"):
            paths.append(f"/download{paths[0]}")
        paths += [p["path"] for p in method.get("mediaUpload", {}).get("protocols", {}).values()]
        for path in paths:
            yield _pattern(path), method
    for resource in node.get("resources", {}).values():
        yield from _methods(resource, document)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\+?\w+\})", template)
    return re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts))


def _scalar_faults(schema: Mapping[str, Any], value: Any, where: str) -> list[str]:
    """The faults of a value that is no object or list. Numbers may be strings, because JSON has no 64-bit integers."""
    kind, is_integer = schema.get("type"), schema.get("format") in ("int64", "uint64")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    is_good = {
        "boolean": text.lower() in ("true", "false"),
        "integer": not isinstance(value, bool) and _NUMBER.fullmatch(text) is not None,
        "number": not isinstance(value, bool) and _NUMBER.fullmatch(text) is not None,
        "string": _NUMBER.fullmatch(text) is not None if is_integer else isinstance(value, str),
    }.get(str(kind), True)
    if not is_good:
        return [f"[{where}] is {value!r}, expected {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"[{where}] is {value!r}, expected one of {schema['enum']}"]
    return []


def _paths(mask: str) -> Iterator[list[str]]:
    """The paths that a field mask names, each as the list of its names."""
    stack: list[list[str]] = [[]]
    current: list[str] = []
    for token in re.findall(r"[(),]|[^(),]+", unquote(mask)):
        if token == "(":
            stack.append(current)
            current = []
        elif token in ",)":
            if current:
                yield current
            current = []
            if token == ")":
                stack.pop()
        else:
            current = [*stack[-1], *re.split(r"[./]", token.strip())]
    if current:
        yield current
