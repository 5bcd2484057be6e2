"""A stand-in in this process, with Google's own clients: REST without a socket, the Storage Write API with one.

Tests see of the stand-in only what a client sees, its control endpoints, and the files of its data folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
from google.cloud.bigquery_storage_v1.types import AppendRowsResponse
from starlette.testclient import TestClient

from bigquery_standin.rest.application import create_application
from bigquery_standin.stand_in import open_stand_in
from bigquery_standin.write_api.server import WriteApiServer
from tests.shared.write_api_client import append, append_request, default_stream, message_class, write_client

PROJECT = "local-dev"


class _Session:
    """Sends the requests of Google's client to an application in this process."""

    def __init__(self, http: TestClient) -> None:
        self._http = http

    def request(self, method: str, url: str, data: Any = None, headers: Any = None, timeout: Any = None) -> Any:
        return self._http.request(method, url, content=data, headers=headers)


class Warehouse:
    """A stand-in with all its data below `folder`. `updates_per_10_s`: by default out of reach."""

    def __init__(self, folder: Path, updates_per_10_s: int = 10**9) -> None:
        self.folder = folder
        self._updates_per_10_s = updates_per_10_s
        self._open()

    def _open(self) -> None:
        self._stand_in = open_stand_in(self.folder, self._updates_per_10_s)
        self.http = TestClient(create_application(self._stand_in))
        self.client = bigquery.Client(
            PROJECT,
            AnonymousCredentials(),
            _http=_Session(self.http),  # type: ignore[arg-type]
            client_options={"api_endpoint": str(self.http.base_url)},
        )

    def restart(self) -> None:
        """Open the data again, as after the end of the process."""
        self.close()
        self._open()

    def close(self) -> None:
        if "_writer" in vars(self):
            self._channel.close()
            self._server.stop()
            del self._writer

    def job(self, sql: str, job_id: str | None = None, **settings: Any) -> bigquery.QueryJob:
        """Run a query job to its end. `settings`: of QueryJobConfig. Raises GoogleAPICallError if it fails."""
        config = bigquery.QueryJobConfig(**settings)
        job = self.client.query(sql, config, job_id=job_id, retry=None, job_retry=None)
        job.result(retry=None)
        return job

    def rows(self, sql: str, **settings: Any) -> list[tuple[Any, ...]]:
        config = bigquery.QueryJobConfig(**settings)
        return [tuple(row.values()) for row in self.client.query_and_wait(sql, job_config=config, job_retry=None)]

    def statistics(self, sql: str, **settings: Any) -> Mapping[str, Any]:
        """The query statistics of a job, such as `dmlStats`."""
        found: Mapping[str, Any] = self.job(sql, **settings)._properties["statistics"]["query"]
        return found

    def refusal(self, sql: str, **settings: Any) -> tuple[str, str]:
        """The reason and the message of the error with which a query fails."""
        with pytest.raises(GoogleAPICallError) as failed:
            self.job(sql, **settings)
        return failed.value.errors[0]["reason"], failed.value.errors[0]["message"]

    def stored(self, table: str) -> list[tuple[Any, ...]]:
        """The sorted rows in storage, without those in the streaming buffer and without pending row changes."""
        return sorted(tuple(row.values()) for row in self.client.list_rows(f"{PROJECT}.{table}"))

    def append(self, table: str, kinds: Mapping[str, str], *rows: Mapping[str, Any]) -> AppendRowsResponse:
        """Append rows to the table's default stream. `kinds`: the protocol buffer type of each field."""
        kind = message_class(kinds)
        request = append_request(default_stream(table), kind, [kind(**row) for row in rows])
        (response,) = append(self._writer, request)
        return response

    @cached_property
    def _writer(self) -> BigQueryWriteClient:
        self._server = WriteApiServer(self._stand_in, "127.0.0.1", 0)
        self._server.start()
        self._channel = grpc.insecure_channel(self._server.address)
        return write_client(self._channel)

    def now(self) -> datetime:
        return datetime.fromisoformat(self.http.get("/_standin/clock").json()["now"])

    def advance(self, **time: float) -> None:
        """Advance the clock, and do what the stand-in does once a second. `time`: arguments of timedelta."""
        seconds = timedelta(**time).total_seconds()
        self.http.post("/_standin/clock", json={"advance_seconds": seconds}).raise_for_status()

    @contextmanager
    def fault(self, **fault: Any) -> Iterator[None]:
        """Make requests or jobs fail or wait during the block."""
        self.http.post("/_standin/faults", json=fault).raise_for_status()
        try:
            yield
        finally:
            self.http.delete("/_standin/faults").raise_for_status()

    def files(self) -> int:
        """How many files with rows there are after a restart."""
        self.restart()
        return len(list((self.folder / "segments").glob("**/*.parquet")))
