"""Configures Google's command-line tools and Python clients for the local stack: `.local/stack.env` and other files.

After `set -a; . .local/stack.env; set +a`, the Python clients, `bq` and `gcloud storage` use the stack. Its servers
check no credentials, so the tools get a dummy token. Of `gcloud storage`, fake-gcs-server cannot serve `cp -r`, which
asks for the bucket's storage layout; after `rm`, the tool cannot read the server's answer.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from devstack.stack import names_and_logins as names
from devstack.stack.layout import Layout
from devstack.stack.ports import HOST, Ports, url

# The variables of stack.env that have an address of the stack, and those that are the same in every stack.
ADDRESSES = ("STORAGE_EMULATOR_HOST", "BIGQUERY_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST", "AIRFLOW_URL")
NAMES = {
    "AIRFLOW_USER": names.AIRFLOW_USER,
    "AIRFLOW_PASSWORD": names.AIRFLOW_PASSWORD,
    "PROJECT_ID": names.PROJECT_ID,
    "LANDING_BUCKET": names.LANDING_BUCKET,
    "STATE_BUCKET": names.STATE_BUCKET,
    "DATASET": names.DATASET,
}


def write(layout: Layout, ports: Ports) -> None:
    """Write stack.env, and the files of the command-line tools that it names."""
    tools, bigquery_url = layout.client_tools, url(ports.bigquery)
    (tools / "gcloud").mkdir(parents=True, exist_ok=True)
    write_file(tools / "token", "local")
    write_file(tools / "bigqueryrc", f"api = {bigquery_url}\nproject_id = {names.PROJECT_ID}\n")
    addresses = (url(ports.gcs), bigquery_url, f"{HOST}:{ports.bigquery_write}", url(ports.airflow))
    variables = {
        **dict(zip(ADDRESSES, addresses, strict=True)),
        "DEDUP_CLONE_PROFILE": "local",  # for `make plan` and other commands that also work on Google Cloud
        "CLOUDSDK_CONFIG": str(tools / "gcloud"),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tools / "token"),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url(ports.gcs)}/storage/v1/",
        "CLOUDSDK_CORE_PROJECT": names.PROJECT_ID,
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "BIGQUERYRC": str(tools / "bigqueryrc"),
    }
    write_stack_env(layout, variables)


def write_stack_env(layout: Layout, variables: Mapping[str, str]) -> None:
    """Write these variables and NAMES to stack.env, as `read` and a shell can read them."""
    lines = (f"{name}={shlex.quote(value)}\n" for name, value in {**NAMES, **variables}.items())
    write_file(layout.stack_env, "".join(lines))


def read(path: Path) -> dict[str, str]:
    """The environment variables in stack.env, or in another file of this form."""
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {name: "".join(shlex.split(value)) for name, value in pairs}


def write_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file atomically. Only the user may read it, unless `mode` says otherwise."""
    new = path.with_name(path.name + ".new")
    new.touch(mode)
    new.write_text(text)
    os.replace(new, path)
