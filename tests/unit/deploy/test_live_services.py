"""Each of Google's services gets the user's credentials, unless its own variable names a local server."""

from __future__ import annotations

import google.auth
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from deploy.environment_settings import read_profile
from deploy.live_services import open_live_clients

VARIABLES = {storage.Client: "STORAGE_EMULATOR_HOST", bigquery.Client: "BIGQUERY_EMULATOR_HOST"}


class Login(AnonymousCredentials):
    """The credentials of `gcloud auth application-default login`."""


@pytest.mark.parametrize("local", [(), (storage.Client,), (bigquery.Client,), (storage.Client, bigquery.Client)])
def test_a_service_is_called_without_a_login_only_if_it_is_local(
    local: tuple[type, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for service, variable in VARIABLES.items():
        monkeypatch.delenv(variable, raising=False)
        if service in local:
            monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setattr(google.auth, "default", lambda **_: (Login(), "my-project"))
    clients = open_live_clients(read_profile())
    warehouse = clients.warehouse._client
    buckets = {store._bucket.client for store in (clients.state, clients.landing)}
    for client in (warehouse, *buckets):
        expected = AnonymousCredentials if type(client) in local else Login
        assert type(client._credentials) is expected
