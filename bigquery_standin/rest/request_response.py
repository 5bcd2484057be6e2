"""Defines the requests and responses that REST handlers get and return."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bigquery_standin.bigquery_errors import Invalid
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


@dataclass(frozen=True)
class ApiResponse:
    """One response. `body`: None for an empty response."""

    body: Mapping[str, Any] | None
    status: int = 200


Handler = Callable[[StandIn, ApiRequest], ApiResponse]


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
