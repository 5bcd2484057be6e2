"""Starts a local stack for tests, and stops it.

The stack's requests to storage and BigQuery pass through proxies (`holding_proxy.py`), which can hold a request until a
process has been killed. The stack has its own files and ports, and its own copy of the DAGs, so it can run beside a
stack that `make up` started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from devstack.stack import lifecycle, ports
from devstack.stack.layout import CHECKOUT, DAGS_FOLDER_VARIABLE, LOCAL_DIR_VARIABLE, Layout
from devstack.stack.process_environment import BIGQUERY_PROXY_VARIABLE, STORAGE_PROXY_VARIABLE
from testkit.holding_proxy import HoldingProxy, Service
from testkit.stack import Stack
from testkit.stack_runs import RUN_POLL_S, RUN_TIMEOUT_S
from testkit.waiting import wait_for


@contextmanager
def running_stack(folder: Path, prepare_dags: Callable[[Path], None]) -> Iterator[Stack]:
    """Start a new stack, yield it once Airflow knows the DAGs of all feeds, and stop it at the end.

    `folder`: the folder of all its files, which must be empty. `prepare_dags`: is called with the folder of the copied
    DAGs before anything starts, and may change it.
    """
    dags = folder / "dags"
    shutil.copytree(CHECKOUT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / "sql", dags / "sql")
    (folder / "spark_jobs").symlink_to(CHECKOUT / "spark_jobs")
    prepare_dags(dags)
    environ = {**os.environ, LOCAL_DIR_VARIABLE: str(folder), DAGS_FOLDER_VARIABLE: str(dags)}
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        os.environ.pop(variable, None)  # clients would send requests for 127.0.0.1 to the user's own HTTP proxy
    layout = Layout(environ)
    stack_ports = ports.choose(layout.ports_file, print)
    proxies = {
        Service.STORAGE: HoldingProxy(Service.STORAGE, ports.url(stack_ports.gcs)),
        Service.BIGQUERY: HoldingProxy(Service.BIGQUERY, ports.url(stack_ports.bigquery)),
    }
    environ[STORAGE_PROXY_VARIABLE] = proxies[Service.STORAGE].url
    environ[BIGQUERY_PROXY_VARIABLE] = proxies[Service.BIGQUERY].url
    for proxy in proxies.values():
        proxy.start()
    try:
        lifecycle.up(layout, environ, print)
        stack = Stack(layout, proxies)
        wait_for_dags(stack, *(path.stem for path in (dags / "feeds").glob("*.yaml")))
        yield stack
        stack.is_stopped = True  # threads that wait for something give up
    finally:
        lifecycle.down(layout, print)
        for proxy in proxies.values():
            proxy.stop()


def wait_for_dags(stack: Stack, *feeds: str) -> None:
    """Wait until Airflow knows the DAGs of the feeds, and none of them is paused."""
    dag_ids = [f"{feed}_{dag}" for feed in feeds for dag in ("watch", "publish", "rollback")]
    for dag_id in dag_ids:
        wait_for(
            partial(_is_active, stack, dag_id), f"Airflow knows [{dag_id}]", RUN_TIMEOUT_S, poll_interval_s=RUN_POLL_S
        )


def _is_active(stack: Stack, dag_id: str) -> bool:
    return stack.airflow.is_paused(dag_id) is False
