"""Defines requests, responses and methods of the REST API, and refuses requests that ask for what is not supported.

Paths, and which fields only answers have, are in Google's discovery document.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.job_configuration import UNSET_VALUES
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import user_of


@dataclass(frozen=True)
class ApiRequest:
    """One request.

    `http`: its method, such as GET. `path`: the values of the variables in the URL's path. `query`: the parameters
    after the URL's question mark. `base_url`: the server's URL, with a final slash.
    """

    http: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes
    base_url: str

    @cached_property
    def body(self) -> Any:
        return parse_json(self.content)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """The value of a query parameter, or the default. Raises Invalid unless it is a whole number of 0 or more."""
        text = self.query.get(name)
        if text in (None, ""):
            return default
        try:
            number = int(str(text))
        except ValueError as error:
            raise Invalid(f"Invalid value of parameter {name}: [{text}], expected a whole number.") from error
        if number < 0:
            raise Invalid(f"Invalid value of parameter {name}: [{number}], expected 0 or more.")
        return number

    def flag(self, name: str) -> bool:
        """Whether a query parameter is `true`."""
        return self.query.get(name, "").lower() == "true"

    def user(self) -> str:
        """The e-mail address of the caller."""
        return user_of(self.headers.get("authorization"))

    def project(self) -> str:
        return self.path["project"]


Answer = Mapping[str, Any] | None  # the JSON of a response; None for an empty response
Handler = Callable[[StandIn, ApiRequest], Answer]


def parse_json(content: bytes) -> Any:
    """The parsed JSON; an empty object for no content."""
    try:
        return json.loads(content) if content else {}
    except ValueError as error:
        raise Invalid(f"Invalid JSON payload received: {error}") from error


def check_reference(name: str, given: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raises Invalid if the reference `name` in a request's body differs from what the URL says."""
    for key, value in expected.items():
        if given.get(key, value) != value:
            raise Invalid(f"{name}.{key} is [{given[key]}], but the URL says [{value}].")


def paginate(
    items: list[Any], request: ApiRequest, default_size: int = 1_000, size_parameter: str = "maxResults"
) -> tuple[list[Any], dict[str, str]]:
    """One page of the items, and the response's field `nextPageToken` if more items follow.

    The page begins at the request's `pageToken`, which is a position in the list. `size_parameter`: the query parameter
    with the page size. Raises Invalid for a wrong token or size.
    """
    token = request.query.get("pageToken") or "0"
    if not token.isdigit():
        raise Invalid(f"Invalid page token [{token}]: pass the nextPageToken of the page before.")
    size = request.integer(size_parameter) or default_size
    first = int(token)
    following = first + size
    return items[first:following], {"nextPageToken": str(following)} if following < len(items) else {}


COMMON_PARAMETERS = frozenset({"alt", "fields", "key", "prettyPrint", "quotaUser", "$.xgafv", "access_token"})
# Fields of which only these values are supported.
ONLY_VALUES: dict[str, frozenset[object]] = {
    "configuration.jobType": frozenset({"QUERY", "LOAD", "EXTRACT"}),
    "configuration.query.useLegacySql": frozenset({False}),
    "configuration.query.priority": frozenset({"INTERACTIVE", "BATCH"}),
    "configuration.load.encoding": frozenset({"UTF-8"}),
    "useLegacySql": frozenset({False}),
    "jobCreationMode": frozenset({"JOB_CREATION_REQUIRED"}),
}
# Fields that only answers have, but that are not marked as such. Requests may have them; they are ignored.
_ONLY_IN_ANSWERS = ("kind", "access")
_PATH_NAMES = {"queries": "job", "rowAccessPolicies": "policy"}  # others are the singular, such as `table` of tables


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


@dataclass(frozen=True)
class Method:
    """One method of BigQuery's REST API, such as `tables.get`, with its handler.

    `parameters`, `fields`: the supported query parameters and fields of the request's body, separated by spaces. In a
    field, `*` stands for any key.
    """

    id: str
    handle: Handler
    parameters: str = ""
    fields: str = ""

    @cached_property
    def _description(self) -> dict[str, Any]:
        resource, name = self.id.split(".")
        found: dict[str, Any] = google_document()["resources"][resource]["methods"][name]
        return found

    @property
    def http(self) -> str:
        return str(self._description["httpMethod"])

    @property
    def path(self) -> str:
        """The path relative to /bigquery/v2/, with names in braces, such as {table}."""

        def name(found: re.Match[str]) -> str:
            return f"{{{_PATH_NAMES.get(found[1], found[1].removesuffix('s'))}}}"

        return re.sub(r"{(\w+)Id}", name, self._description["flatPath"])

    @cached_property
    def _fields(self) -> frozenset[str]:
        return frozenset(self.fields.split())

    def answer(self, stand_in: StandIn, request: ApiRequest) -> Answer:
        """Check the request, and handle it."""
        self.check_parameters(request.query)
        self.check_body(request.body)
        return self.handle(stand_in, request)

    def check_parameters(self, given: Mapping[str, str]) -> None:
        supported = COMMON_PARAMETERS | set(self.parameters.split())
        for name, value in given.items():
            # An unsupported parameter that is empty or false asks for nothing.
            if name not in supported and value.lower() not in ("", "false"):
                raise NotImplementedConstruct(f"parameter {name} of {self.id}")

    def check_body(self, body: Any) -> None:
        if "request" not in self._description:
            return
        if not isinstance(body, dict):
            raise Invalid(f"Invalid JSON payload received: expected an object, found [{type(body).__name__}].")
        schema = google_document()["schemas"][self._description["request"]["$ref"]]
        ignored = {name for name, field in schema["properties"].items() if field.get("readOnly")} | {*_ONLY_IN_ANSWERS}
        self._check_supported({key: value for key, value in body.items() if key not in ignored}, "")

    def _check_supported(self, value: Any, path: str) -> None:
        """Raises NotImplementedConstruct if the field `path`, or a field in its value, is not supported."""
        if value in UNSET_VALUES:
            return
        allowed = ONLY_VALUES.get(path)
        if allowed is not None and value not in allowed:
            raise NotImplementedConstruct(f"{path} = {value}")
        if path in self._fields or f"{path}.*" in self._fields:
            return
        if isinstance(value, dict) and any(field.startswith(f"{path}." if path else "") for field in self._fields):
            for key, item in value.items():
                self._check_supported(item, f"{path}.{key}" if path else key)
            return
        raise NotImplementedConstruct(f"{path} of {self.id}")
