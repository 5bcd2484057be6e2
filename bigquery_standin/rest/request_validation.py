"""Checks the fields and parameters of requests.

A field that BigQuery does not have is refused as Invalid, one that the stand-in does not support as
NotImplementedConstruct.
"""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.job_configuration import UNSET_VALUES
from bigquery_standin.rest.supported_methods import COMMON_PARAMETERS, ONLY_VALUES, READ_ONLY_FIELDS, Method

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, int, float),
    "boolean": (bool, str),
    "integer": (int, str),
    "number": (int, float, str),
}


def check_parameters(method: Method, parameters: Mapping[str, str]) -> None:
    api_parameters = parameters_of(method.id) | method.parameters | COMMON_PARAMETERS
    for name, value in parameters.items():
        if name not in api_parameters:
            raise Invalid(f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.')
        # An unsupported parameter that is empty or false asks for nothing.
        if name not in method.parameters | COMMON_PARAMETERS and value.lower() not in ("", "false"):
            raise NotImplementedConstruct(f"parameter {name} of {method.id}")


def check_body(method: Method, body: Any) -> None:
    if method.body is None:
        return
    _check_object(body, schema_of(method.body), "")
    read_only = READ_ONLY_FIELDS[method.body]
    _check_supported(method, {key: value for key, value in body.items() if key not in read_only}, "")


def _check_object(value: Any, schema: Mapping[str, Any], path: str) -> None:
    if not isinstance(value, dict):
        raise Invalid(f"Invalid value at '{path or 'body'}': expected an object, found [{type(value).__name__}].")
    properties = schema.get("properties")
    for key, item in value.items():
        if properties is None:
            _check_value(item, schema.get("additionalProperties", {"type": "any"}), _join(path, key))
        elif key not in properties:
            raise Invalid(
                f'Invalid JSON payload received. Unknown name "{key}"{f" at {path!r}" if path else ""}: '
                "Cannot find field."
            )
        else:
            _check_value(item, properties[key], _join(path, key))


def _check_value(value: Any, schema: Mapping[str, Any], path: str) -> None:
    if value is None:
        return
    if "$ref" in schema:
        _check_value(value, schema_of(schema["$ref"]), path)
    elif schema["type"] == "object":
        _check_object(value, schema, path)
    elif schema["type"] == "array":
        if not isinstance(value, list):
            raise Invalid(f"Invalid value at '{path}': expected an array, found [{type(value).__name__}].")
        for item in value:
            _check_value(item, schema["items"], path)
    elif schema["type"] != "any" and not isinstance(value, _PYTHON_TYPES[schema["type"]]):
        raise Invalid(f"Invalid value at '{path}': expected [{schema['type']}], found [{type(value).__name__}].")


def _check_supported(method: Method, value: Any, path: str) -> None:
    """Raises NotImplementedConstruct if the field `path`, or a field in its value, is not supported."""
    if value in UNSET_VALUES:
        return
    allowed = ONLY_VALUES.get(path)
    if allowed is not None and value not in allowed:
        raise NotImplementedConstruct(f"{path} = {value}")
    if path in method.fields or f"{path}.*" in method.fields:
        return
    if isinstance(value, dict) and any(field.startswith(f"{path}." if path else "") for field in method.fields):
        for key, item in value.items():
            _check_supported(method, item, _join(path, key))
        return
    raise NotImplementedConstruct(f"{path} of {method.id}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@cache
def google_document() -> dict[str, Any]:
    spec = importlib.util.find_spec("googleapiclient")
    if spec is None or spec.origin is None:
        raise RuntimeError("Package [google-api-python-client] is missing: install the requirements of the project.")
    path = Path(spec.origin).parent / "discovery_cache" / "documents" / "bigquery.v2.json"
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def local_document(root_url: str) -> dict[str, Any]:
    """The document for clients of the server at `root_url`, which ends with a slash."""
    document = copy.deepcopy(google_document())
    document["rootUrl"] = root_url
    document["baseUrl"] = root_url + document["servicePath"]
    document.pop("mtlsRootUrl", None)
    return document


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a resource or request body, such as `Table`."""
    schema: dict[str, Any] = google_document()["schemas"][name]
    return schema


def parameters_of(method_id: str) -> frozenset[str]:
    """The query parameters that BigQuery has for a method, such as `tables.get`."""
    resource, name = method_id.split(".")
    method = google_document()["resources"][resource]["methods"][name]
    return frozenset(key for key, value in method["parameters"].items() if value["location"] == "query")
