"""Parses and writes the names of write streams in the Storage Write API."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devstack.bigquery.bigquery_errors import NotImplementedConstruct
from devstack.bigquery.storage.model import TableId
from devstack.bigquery.write_api.storage_errors import invalid_argument

DEFAULT_STREAM = "_default"
_STREAM_NAME = re.compile(rf"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/(?:streams/([^/]+)|{DEFAULT_STREAM})")


@dataclass(frozen=True)
class StreamName:
    """The name of a write stream: its table, and its id within the table."""

    table: TableId
    id: str

    @property
    def is_default(self) -> bool:
        return self.id == DEFAULT_STREAM

    def __str__(self) -> str:
        table = self.table
        return f"projects/{table.project}/datasets/{table.dataset}/tables/{table.table}/streams/{self.id}"


def parse_stream(name: str) -> StreamName:
    """The stream that a request names.

    Raises WriteApiError if this is not the name of a stream, NotImplementedConstruct for a partition decorator.
    """
    match = _STREAM_NAME.fullmatch(name)
    if match is None:
        raise invalid_argument(f"Stream is [{name}], expected [projects/P/datasets/D/tables/T/streams/S].")
    project, dataset, table, stream = match.groups()
    if "$" in table:
        raise NotImplementedConstruct(f"streaming into the partition {table}")
    return StreamName(TableId(project, dataset, table), stream or DEFAULT_STREAM)
