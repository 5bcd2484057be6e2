"""Provides BigQuery's discovery document, which describes the REST API. Requests are checked against it.

The document is part of google-api-python-client. Clients get it with this server's address in place of Google's.
"""

from __future__ import annotations

import copy
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any


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
