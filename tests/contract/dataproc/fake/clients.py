"""Connects the clients of Airflow's Google hooks to the fake services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.hooks.dataproc import DataprocHook
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.bigquery import Client
from google.cloud.dataproc_v1 import BatchControllerClient, JobControllerClient
from google.cloud.dataproc_v1.services.batch_controller.transports import BatchControllerGrpcTransport
from google.cloud.dataproc_v1.services.job_controller.transports import JobControllerGrpcTransport

from testkit.airflow import ProcessKilled
from tests.contract.dataproc.fake.faults import KILLED


class _Killing(grpc.UnaryUnaryClientInterceptor):
    """Raises ProcessKilled in the caller if the fake's error says that the caller is killed."""

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        call = continuation(details, request)
        if call.exception() is not None and call.details() == KILLED:
            raise ProcessKilled
        return call


def connect_hook(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow's Dataproc hook connect its clients to the fake at `address`, host:port."""
    channel = grpc.intercept_channel(grpc.insecure_channel(address), _Killing())

    def opening(client: Any, transport: Any) -> Callable[..., Any]:
        return lambda self, region=None: client(transport=transport(channel=channel))

    monkeypatch.setattr(DataprocHook, "__init__", lambda self, **_: None)
    monkeypatch.setattr(DataprocHook, "get_batch_client", opening(BatchControllerClient, BatchControllerGrpcTransport))
    monkeypatch.setattr(DataprocHook, "get_job_client", opening(JobControllerClient, JobControllerGrpcTransport))


class _KillingSession(AuthorizedSession):
    """Raises ProcessKilled as _Killing does, for clients over HTTP."""

    def request(self, *args: Any, **kwargs: Any) -> Any:
        response = super().request(*args, **kwargs)
        if not response.ok and KILLED in response.text:
            raise ProcessKilled
        return response


def connect_bigquery(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow's BigQuery hook connect its client to the fake at `address`, a URL."""

    def open_client(self: Any, *, project_id: str, location: str) -> Client:
        return Client(
            project=project_id,
            location=location,
            _http=_KillingSession(AnonymousCredentials()),
            client_options=ClientOptions(api_endpoint=address),
        )

    monkeypatch.setattr(BigQueryHook, "__init__", lambda self, **_: None)
    monkeypatch.setattr(BigQueryHook, "get_client", open_client)
