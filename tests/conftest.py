"""Sets up Airflow and Google's clients before any test imports them.

Airflow reads its environment when it is imported: it gets an empty home. Google's clients talk to servers on this
machine, so they poll jobs every few milliseconds and look for no proxy. What costs time in each request or test and
proves nothing is avoided.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import tempfile
import typing

import pytest
import requests.sessions
from google.api_core.future.polling import DEFAULT_POLLING

_home = tempfile.mkdtemp(prefix="airflow-home-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

os.environ["AIRFLOW_HOME"] = _home
os.environ["DEDUP_CLONE_PROFILE"] = "local"
os.environ["DEDUP_CLONE_ENVIRONMENT"] = "tests"
os.environ.setdefault("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
# Without this, Google's client requests the bucket's metadata, for traces, whenever an object is missing.
os.environ["DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"] = "true"
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"

# By default Google's clients poll a job for the first time after up to a second.
DEFAULT_POLLING._initial = DEFAULT_POLLING._maximum = 0.02

# By default each request searches the environment for a proxy and the disk for a password, which takes more than five
# percent of the time of a publish in the tests.
requests.sessions.get_environ_proxies = lambda url, no_proxy=None: {}
requests.sessions.get_netrc_auth = lambda url, raise_errors=False: None

# Python 3.11 finds the members of a protocol anew in each isinstance, of which requests has eight in each request.
if hasattr(typing, "_get_protocol_attrs"):
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)

# Collecting garbage among all imported objects, again and again, takes a good part of the time of short tests.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or modules in C++ tell of leaks at the end
