"""The environment that every part of the stack runs in."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from devstack.stack import airflow_settings
from devstack.stack.layout import Layout
from devstack.stack.names import STATE_BUCKET
from devstack.stack.ports import Ports
from devstack.stack.processes import MARKER
from devstack.stack.secret_keys import SecretKeys

# Settings of the person's own Airflow or Google Cloud login must not leak into the stack.
_FOREIGN_PREFIXES = (
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
# What stands in front of storage and BigQuery, where something does: the long runs hold requests there.
STORAGE_ENTRANCE_VARIABLE = "DEDUP_CLONE_STORAGE_ENTRANCE"
BIGQUERY_ENTRANCE_VARIABLE = "DEDUP_CLONE_BIGQUERY_ENTRANCE"
# Without compiled modules on disk each start of each part, and each Spark worker, compiles them anew.
_FOREIGN = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "BOTO_CONFIG", "BIGQUERYRC"})


def build(layout: Layout, ports: Ports, keys: SecretKeys, environ: Mapping[str, str]) -> dict[str, str]:
    """What the parts get: the person's environment without foreign settings, and ours."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)
    }
    no_proxy = ",".join(filter(None, ("127.0.0.1,localhost", environ.get("NO_PROXY"), environ.get("no_proxy"))))
    return {
        **kept,
        **airflow_settings.settings(layout, ports, keys),
        MARKER: str(layout.local),
        # setproctitle would overwrite the memory in which the marker is read from outside.
        "SPT_NOENV": "1",
        "DEDUP_CLONE_PROFILE": "local",
        # The web server, which sees no profile, reads the page's contents there.
        "DEDUP_CLONE_STATE_BUCKET": STATE_BUCKET,
        "STORAGE_EMULATOR_HOST": environ.get(STORAGE_ENTRANCE_VARIABLE) or ports.gcs_url,
        "BIGQUERY_EMULATOR_HOST": environ.get(BIGQUERY_ENTRANCE_VARIABLE) or ports.bigquery_url,
        "GOOGLE_CLOUD_PROJECT": "local-dev",
        # Without it the client asks the cloud's metadata server, and waits.
        "NO_GCE_CHECK": "true",
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH", os.defpath))),
        "PYTHONPATH": os.pathsep.join((str(layout.plugins_folder), str(layout.checkout))),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
