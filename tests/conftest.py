"""Airflow reads its environment when it is first imported: here it gets an empty home of its own before that.

And Google's clients talk to servers on this machine: a job takes milliseconds, and there is no proxy.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import requests.sessions
from google.api_core.future.polling import DEFAULT_POLLING

_home = tempfile.mkdtemp(prefix="airflow-home-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

os.environ["AIRFLOW_HOME"] = _home
os.environ["DEDUP_CLONE_PROFILE"] = "local"
os.environ.setdefault("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
# Google's client would ask for the bucket whenever an object is absent, for traces that nobody keeps.
os.environ["DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"] = "true"
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"

# Google's clients would first ask after up to a second.
DEFAULT_POLLING._initial = DEFAULT_POLLING._maximum = 0.02

# Each request would look through the environment twice for a proxy, and on disk for a password: more than a twentieth
# of what a publish takes here.
requests.sessions.get_environ_proxies = lambda url, no_proxy=None: {}
requests.sessions.get_netrc_auth = lambda url, raise_errors=False: None
