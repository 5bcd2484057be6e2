"""Appends rows to the default stream of a table, by Google's client of the Storage Write API."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

from tests.shared.write_api_client import append, append_request, message_class

PLAIN = message_class({"id": "int64", "name": "string"})


@contextmanager
def writer() -> Iterator[BigQueryWriteClient]:
    """Google's client of the stand-in that conftest.py names in the environment, or of Google Cloud."""
    address = os.environ.get("BIGQUERY_STORAGE_EMULATOR_HOST")
    if address is None:
        yield BigQueryWriteClient()
        return
    with grpc.insecure_channel(address) as channel:
        yield BigQueryWriteClient(transport=BigQueryWriteGrpcTransport(channel=channel))


def stream_of(table: str) -> str:
    """The default stream of the table with this full name."""
    project, dataset, name = table.split(".")
    return f"projects/{project}/datasets/{dataset}/tables/{name}/streams/_default"


def send(table: str, *requests: list[Any]) -> list[Any]:
    """Send requests with these rows over one connection. Returns the responses."""
    kinds = [type(rows[0]) for rows in requests]
    new = [kind if number == 0 or kind is not kinds[number - 1] else None for number, kind in enumerate(kinds)]
    with writer() as client:
        return append(
            client, *(append_request(stream_of(table), kind, rows) for kind, rows in zip(new, requests, strict=True))
        )
