"""Configures Google's command-line tools and Python clients for the local stack: `.local/stack.env` and other files.

After `set -a; . .local/stack.env; set +a`, the Python clients, `bq`, `gsutil` and `gcloud storage` use the stack. Its
servers check no credentials, so the tools get a dummy token. `gsutil` runs `gcloud storage` for each command, because
its own code connects to another server only with TLS, and cannot read fake-gcs-server's answer to a deletion.
"""

import os
import shlex
from pathlib import Path

from devstack.stack.layout import Layout
from devstack.stack.names_and_logins import (
    AIRFLOW_PASSWORD,
    AIRFLOW_USER,
    DATASET,
    LANDING_BUCKET,
    PROJECT_ID,
    STATE_BUCKET,
)
from devstack.stack.ports import Ports

TOKEN = "local"

BOTO = f"""\
[GSUtil]
use_gcloud_storage = True
default_project_id = {PROJECT_ID}
software_update_check_period = 0
"""


def bigqueryrc_text(ports: Ports) -> str:
    return f"api = {ports.bigquery_url}\nproject_id = {PROJECT_ID}\n"


def connection_variables(
    storage_url: str, bigquery_url: str, airflow_url: str, bigquery_write_address: str
) -> dict[str, str]:
    """The environment variables from which devstack.connection makes a Connection."""
    return {
        "STORAGE_EMULATOR_HOST": storage_url,
        "BIGQUERY_EMULATOR_HOST": bigquery_url,
        "BIGQUERY_STORAGE_EMULATOR_HOST": bigquery_write_address,
        "AIRFLOW_URL": airflow_url,
        "AIRFLOW_USER": AIRFLOW_USER,
        "AIRFLOW_PASSWORD": AIRFLOW_PASSWORD,
        "PROJECT_ID": PROJECT_ID,
        "LANDING_BUCKET": LANDING_BUCKET,
        "STATE_BUCKET": STATE_BUCKET,
        "DATASET": DATASET,
    }


def variables(layout: Layout, ports: Ports) -> dict[str, str]:
    """The environment variables in stack.env."""
    tools = layout.client_tools
    return {
        **connection_variables(ports.gcs_url, ports.bigquery_url, ports.airflow_url, ports.bigquery_write_address),
        "DEDUP_CLONE_PROFILE": "local",  # for `make plan` and other commands that also work on Google Cloud
        "CLOUDSDK_CONFIG": str(tools / "gcloud"),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tools / "token"),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{ports.gcs_for_gcloud_url}/storage/v1/",
        "CLOUDSDK_CORE_PROJECT": PROJECT_ID,
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "BOTO_CONFIG": str(tools / "boto"),
        "BIGQUERYRC": str(tools / "bigqueryrc"),
    }


def write(layout: Layout, ports: Ports) -> None:
    """Write stack.env, and the files of the command-line tools that it names."""
    tools = layout.client_tools
    (tools / "gcloud").mkdir(parents=True, exist_ok=True)
    write_file(tools / "token", TOKEN)
    write_file(tools / "boto", BOTO)
    write_file(tools / "bigqueryrc", bigqueryrc_text(ports))
    write_variables(layout.stack_env, variables(layout, ports))


def write_variables(path: Path, values: dict[str, str]) -> None:
    """Write environment variables to a file that `read` and a shell can read."""
    write_file(path, "\n".join(f"{name}={shlex.quote(value)}" for name, value in values.items()) + "\n")


def read(path: Path) -> dict[str, str]:
    """The environment variables in a file that `write_variables` wrote."""
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if line)
    return {name: "".join(shlex.split(value)) for name, value in pairs}


def write_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file atomically. Only the user may read it, unless `mode` says otherwise."""
    new = path.with_name(path.name + ".new")
    new.touch(mode)
    new.write_text(text)
    os.replace(new, path)
