"""A fault of Cloud Storage and BigQuery: a write is stored, but its client is told that the service is unavailable."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from google.api_core.client_options import ClientOptions
from google.api_core.retry import retry_unary
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

AnyClient = TypeVar("AnyClient", Storage, BigQuery)


class _LosingAdapter(HTTPAdapter):
    """Sends each write to the server, and answers it with status 503. Only its repetition gets the server's answer."""

    def __init__(self) -> None:
        super().__init__()
        self._lost: set[tuple[Any, ...]] = set()

    def send(self, request: PreparedRequest, *arguments: Any, **keyword_arguments: Any) -> Response:
        response = super().send(request, *arguments, **keyword_arguments)
        write = (request.method, request.url, request.body)
        if request.method == "GET" or not response.ok or write in self._lost:
            self._lost.discard(write)
            return response
        self._lost.add(write)
        response.status_code, response.reason = 503, "Service Unavailable"
        response._content = json.dumps({"error": {"code": 503, "message": "try again"}}).encode()
        return response


@contextmanager
def losing_answers(client: AnyClient) -> Iterator[AnyClient]:
    """A second client of the server of `client`, whose every write is stored but answered with status 503 at first.

    Clients of Google do not wait between two tries meanwhile.
    """
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    session.mount("http://", _LosingAdapter())
    options = ClientOptions(api_endpoint=client._connection.API_BASE_URL)
    no_waiting = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    with patch.object(retry_unary, "time", no_waiting):
        yield type(client)(project=client.project, credentials=credentials, _http=session, client_options=options)
