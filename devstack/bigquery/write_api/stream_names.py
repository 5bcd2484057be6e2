"""Parses and writes the names of write streams and of their tables in the Storage Write API."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devstack.bigquery.bigquery_errors import NotImplementedConstruct
from devstack.bigquery.storage.model import TableId
from devstack.bigquery.write_api.storage_errors import invalid_argument

DEFAULT_STREAM = "_default"
_TABLE = r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)"
_TABLE_NAME = re.compile(_TABLE)
_STREAM_NAME = re.compile(rf"{_TABLE}/(?:streams/([^/]+)|{DEFAULT_STREAM})")


@dataclass(frozen=True)
class StreamName:
    """The name of a write stream: its table, and its id within the table."""

    table: TableId
    id: str

    @property
    def is_default(self) -> bool:
        return self.id == DEFAULT_STREAM

    def __str__(self) -> str:
        return f"{table_name(self.table)}/streams/{self.id}"


def table_name(table: TableId) -> str:
    return f"projects/{table.project}/datasets/{table.dataset}/tables/{table.table}"


def parse_table(name: str) -> TableId:
    """The table that a request names.

    Raises WriteApiError if this is not the name of a table, NotImplementedConstruct for a partition decorator.
    """
    match = _TABLE_NAME.fullmatch(name)
    if match is None:
        raise invalid_argument(f"Table is [{name}], expected [projects/P/datasets/D/tables/T].")
    return _table_id(*match.groups())


def parse_stream(name: str) -> StreamName:
    """The stream that a request names.

    Raises WriteApiError if this is not the name of a stream, NotImplementedConstruct for a partition decorator.
    """
    match = _STREAM_NAME.fullmatch(name)
    if match is None:
        raise invalid_argument(f"Stream is [{name}], expected [projects/P/datasets/D/tables/T/streams/S].")
    project, dataset, table, stream = match.groups()
    return StreamName(_table_id(project, dataset, table), stream or DEFAULT_STREAM)


def _table_id(project: str, dataset: str, table: str) -> TableId:
    """Raises NotImplementedConstruct for a table name with a partition decorator."""
    if "$" in table:
        raise NotImplementedConstruct(f"streaming into the partition {table}")
    return TableId(project, dataset, table)
