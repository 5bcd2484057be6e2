"""Sets up Airflow, Google's clients and Python before any test imports them, so that tests are isolated and fast.

Airflow reads its environment variables at its import, and gets an empty home folder. Google's clients talk to servers
on this machine, so they may poll jobs every few milliseconds and need not look for proxies and passwords.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import tempfile
import typing
from collections.abc import Iterator

import hypothesis
import pytest
import requests.sessions
from google.api_core.future.polling import DEFAULT_POLLING

from devstack.stack import ports

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

# In seconds. By default Google's clients wait up to a second before they first poll a job.
DEFAULT_POLLING._initial = DEFAULT_POLLING._maximum = 0.02

# By default each request searches the environment for a proxy and the disk for a password. That takes more than 5 % of
# the time of a publish in the tests.
requests.sessions.get_environ_proxies = lambda url, no_proxy=None: {}
requests.sessions.get_netrc_auth = lambda url, raise_errors=False: None

# Python 3.11 finds the members of a protocol anew in each call of isinstance, and `requests` makes eight such calls for
# each request.
if hasattr(typing, "_get_protocol_attrs"):
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)

# Two workers that draw the same free port at one time would start two servers at it.
_worker, _workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
ports.FREE_PORTS = ports.FREE_PORTS[int(_worker.removeprefix("gw")) :: int(_workers)]

# By default an example that takes more than 0.2 s fails, which it also does if other processes hold it up.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

# Garbage collections that examine all imported objects again take much of the time of short tests. So garbage is not
# collected during imports, and later collections skip the objects that exist by then.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # otherwise modules in C++ report leaks when the process ends


@pytest.fixture(scope="session")
def zetasql() -> Iterator[typing.Any]:
    """A running testkit.zetasql.ZetaSql."""
    from testkit.zetasql import running_zetasql

    with running_zetasql() as service:
        yield service
