"""Builds the environment variables of the stack's processes."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from devstack.stack import airflow_settings
from devstack.stack.airflow_settings import SecretKeys
from devstack.stack.layout import Layout
from devstack.stack.names_and_logins import STATE_BUCKET
from devstack.stack.ports import Ports
from devstack.stack.processes import STACK_VARIABLE

# Variables of the user's own Airflow or Google Cloud must not leak into the stack.
_REMOVED_PREFIXES = (
    "AIRFLOW",
    "CLOUDSDK_",
    "GOOGLE_",
    "BIGQUERY_",
    "STORAGE_",
    "SPARK_",
    "PYSPARK_",
    "SUPERVISOR_",
    "PG",
)
# The user's connections and variables for Airflow's tasks are kept, because notifiers may need them. If the stack
# defines one of the same name, the stack's counts.
_FOR_TASKS = ("AIRFLOW_CONN_", "AIRFLOW_VAR_")
# Variables with the URLs of proxies in front of storage and of the stand-in. If they are set, all processes of the
# stack use these proxies. Long tests set them (testkit/running_stack.py).
STORAGE_PROXY_VARIABLE = "DEDUP_CLONE_STORAGE_PROXY"
BIGQUERY_PROXY_VARIABLE = "DEDUP_CLONE_BIGQUERY_PROXY"
# PYTHONDONTWRITEBYTECODE would make every process and every Spark worker compile all modules again.
_REMOVED = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "BOTO_CONFIG", "BIGQUERYRC"})


def build(layout: Layout, ports: Ports, keys: SecretKeys, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment variables without those that could disturb the stack, and the stack's own."""
    kept = {
        name: value
        for name, value in environ.items()
        if name.startswith(_FOR_TASKS) or (name not in _REMOVED and not name.startswith(_REMOVED_PREFIXES))
    }
    no_proxy = ",".join(filter(None, ("127.0.0.1,localhost", environ.get("NO_PROXY"), environ.get("no_proxy"))))
    return {
        **kept,
        **airflow_settings.settings(layout, ports, keys),
        STACK_VARIABLE: str(layout.local),
        # Keeps setproctitle from overwriting the memory from which other processes read STACK_VARIABLE.
        "SPT_NOENV": "1",
        "DEDUP_CLONE_PROFILE": "local",
        "DEDUP_CLONE_ENVIRONMENT": "local",  # needed, because a local address of Airflow is not used as its name
        # The page's web server reads no profile, and takes the bucket's name from here.
        "DEDUP_CLONE_STATE_BUCKET": STATE_BUCKET,
        "STORAGE_EMULATOR_HOST": environ.get(STORAGE_PROXY_VARIABLE) or ports.gcs_url,
        "BIGQUERY_EMULATOR_HOST": environ.get(BIGQUERY_PROXY_VARIABLE) or ports.bigquery_url,
        "BIGQUERY_STORAGE_EMULATOR_HOST": ports.bigquery_write_address,
        "DEDUP_CLONE_SPARK_CODE": str(layout.spark_code),
        # Where Spark jobs write their event logs, which the history server shows.
        "DEDUP_CLONE_SPARK_EVENTS": layout.spark_events.as_uri(),
        "GOOGLE_CLOUD_PROJECT": "local-dev",
        # Keeps Google's clients from waiting for the cloud's metadata server.
        "NO_GCE_CHECK": "true",
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH", os.defpath))),
        "PYTHONPATH": os.pathsep.join((str(layout.plugins_folder), str(layout.checkout))),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
