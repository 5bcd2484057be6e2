"""Reads the addresses of the running local stack from `.local/stack.env`, and makes clients of its servers."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.stack import client_config
from devstack.stack.layout import Layout
from devstack.stack.stack_errors import StackError

if TYPE_CHECKING:
    from google.cloud import bigquery, storage


@dataclass(frozen=True)
class Connection:
    """The addresses, resource names and Airflow login of one local stack."""

    storage_url: str
    bigquery_url: str
    airflow_url: str
    airflow_user: str
    airflow_password: str
    project: str
    landing_bucket: str
    state_bucket: str
    dataset: str

    @classmethod
    def from_variables(cls, variables: dict[str, str]) -> "Connection":
        """The connection that the variables of `.local/stack.env` describe."""
        return cls(
            storage_url=variables["STORAGE_EMULATOR_HOST"],
            bigquery_url=variables["BIGQUERY_EMULATOR_HOST"],
            airflow_url=variables["AIRFLOW_URL"],
            airflow_user=variables["AIRFLOW_USER"],
            airflow_password=variables["AIRFLOW_PASSWORD"],
            project=variables["PROJECT_ID"],
            landing_bucket=variables["LANDING_BUCKET"],
            state_bucket=variables["STATE_BUCKET"],
            dataset=variables["DATASET"],
        )

    def storage_client(self) -> "storage.Client":
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        return storage.Client(
            project=self.project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.storage_url},
        )

    def bigquery_client(self) -> "bigquery.Client":
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        return bigquery.Client(
            project=self.project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.bigquery_url},
        )


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
