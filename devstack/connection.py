"""Reads the addresses of the running local stack from `.local/stack.env`, and makes clients of its servers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devstack.stack import client_config, names_and_logins
from devstack.stack.layout import Layout, StackError

if TYPE_CHECKING:
    from google.cloud import bigquery, storage


@dataclass(frozen=True)
class Connection:
    """The addresses, resource names and Airflow login of one local stack."""

    storage_url: str
    bigquery_url: str
    airflow_url: str
    airflow_user: str = names_and_logins.AIRFLOW_USER
    airflow_password: str = names_and_logins.AIRFLOW_PASSWORD
    project: str = names_and_logins.PROJECT_ID
    landing_bucket: str = names_and_logins.LANDING_BUCKET
    state_bucket: str = names_and_logins.STATE_BUCKET
    dataset: str = names_and_logins.DATASET

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> "Connection":
        """The connection that the variables of `.local/stack.env` describe."""
        return cls(variables["STORAGE_EMULATOR_HOST"], variables["BIGQUERY_EMULATOR_HOST"], variables["AIRFLOW_URL"])

    def storage_client(self) -> "storage.Client":
        from google.cloud import storage

        return storage.Client(**self._arguments(self.storage_url))

    def bigquery_client(self) -> "bigquery.Client":
        from google.cloud import bigquery

        return bigquery.Client(**self._arguments(self.bigquery_url))

    def _arguments(self, url: str) -> dict[str, Any]:
        from google.auth.credentials import AnonymousCredentials

        credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
        return {"project": self.project, "credentials": credentials, "client_options": {"api_endpoint": url}}


def connect() -> Connection:
    """The connection to the stack of this checkout. Raises StackError if that stack is down.

    Removes HTTP proxies from the environment of this process: the clients would send requests for 127.0.0.1 to them.
    """
    layout = Layout(os.environ)
    if not layout.stack_env.exists():
        raise StackError(f"The local stack is down: [{layout.stack_env}] is missing. Run `make up` first.")
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        os.environ.pop(variable, None)
    return Connection.from_variables(client_config.read(layout.stack_env))
