"""Describes an HTTP request to Cloud Storage or BigQuery that passes through a proxy (holding_proxy.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from urllib.parse import parse_qs, unquote, urlsplit

MAX_TEXT_BYTES = 64 * 1024  # of a body are searched: JSON records of state are shorter, data files need no search
_NAME_IN_METADATA = re.compile(rb'"name":\s*"([^"]*)"')
_OBJECT_IN_PATH = re.compile(r"/b/[^/]+/o/([^/]+)")


class Service(StrEnum):
    """The service to which a proxy forwards its requests."""

    STORAGE = "storage"
    BIGQUERY = "bigquery"


@dataclass(frozen=True)
class ProxiedRequest:
    """One request. `target`: the path and query string of the request line, still percent-encoded."""

    service: Service
    method: str
    target: str
    body: bytes

    @cached_property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @cached_property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @cached_property
    def text(self) -> str:
        """The first MAX_TEXT_BYTES bytes of the body, decoded."""
        return self.body[:MAX_TEXT_BYTES].decode(errors="replace")

    @cached_property
    def object_name(self) -> str:
        """The name, without its bucket, of the object that a request to storage is about; empty if there is none."""
        match = _OBJECT_IN_PATH.search(urlsplit(self.target).path)
        if match:
            return unquote(match[1])
        if "name" in self.query:
            return self.query["name"]
        metadata_match = _NAME_IN_METADATA.search(self.body[:MAX_TEXT_BYTES]) if self.is_upload else None
        return metadata_match[1].decode() if metadata_match else ""

    @property
    def is_upload(self) -> bool:
        """Whether this is the first request of an upload, which names the object."""
        return self.method == "POST" and "/upload/storage/" in self.path

    @property
    def inserts_job(self) -> bool:
        """Whether this is a call of BigQuery's method jobs.insert."""
        return self.service is Service.BIGQUERY and self.method == "POST" and self.path.endswith("/jobs")

    def __str__(self) -> str:
        return f"{self.method} {self.object_name or self.path}"
