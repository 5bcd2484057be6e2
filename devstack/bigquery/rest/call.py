"""One REST request as handlers see it, and what they answer with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from devstack.bigquery.errors import Invalid


@dataclass(frozen=True)
class Call:
    """`path` holds the path's variables, `base_url` ends with a slash."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    base_url: str

    def integer(self, name: str, default: int | None = None) -> int | None:
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
        return self.query.get(name, "").lower() == "true"

    def project(self) -> str:
        return self.path["project"]


@dataclass(frozen=True)
class Answer:
    """`body` None is an empty answer (204)."""

    body: Mapping[str, Any] | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def page(
    items: list[Any], call: Call, default_size: int = 1_000, size_parameter: str = "maxResults"
) -> tuple[list[Any], str | None]:
    """Items from `pageToken` (a position) on, at most as many as the size parameter says, and the next token."""
    token = call.query.get("pageToken") or "0"
    if not token.isdigit():
        raise Invalid(f"Invalid page token [{token}]: pass the nextPageToken of the page before.")
    size = call.integer(size_parameter) or default_size
    first = int(token)
    following = first + size
    return items[first:following], str(following) if following < len(items) else None
