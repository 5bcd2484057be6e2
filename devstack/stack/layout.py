"""Defines the paths of the local stack's files. Each checkout has one stack, by default in its folder `.local`."""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LOCAL_DIR_VARIABLE = "DEDUP_CLONE_LOCAL_DIR"
DAGS_FOLDER_VARIABLE = "DEDUP_CLONE_DAGS_FOLDER"
PLUGINS_FOLDER_VARIABLE = "DEDUP_CLONE_PLUGINS_FOLDER"

# The path of a unix socket may have 103 bytes on macOS and 107 on Linux.
MAX_SOCKET_PATH_BYTES = 100


@dataclass(frozen=True)
class Layout:
    """The folders and files of one stack, as absolute paths.

    `local`: the folder of all files that the stack writes, except sockets whose paths would be too long.
    """

    checkout: Path
    local: Path
    dags_folder: Path
    plugins_folder: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], checkout: Path = CHECKOUT) -> "Layout":
        return cls(
            checkout=checkout,
            local=Path(environ.get(LOCAL_DIR_VARIABLE) or checkout / ".local").resolve(),
            dags_folder=Path(environ.get(DAGS_FOLDER_VARIABLE) or checkout / "dags").resolve(),
            plugins_folder=Path(environ.get(PLUGINS_FOLDER_VARIABLE) or checkout / "plugins").resolve(),
        )

    @property
    def run(self) -> Path:
        """The folder of what belongs to the running processes: sockets, ports, lock, supervisord's configuration."""
        return self.local / "run"

    @property
    def logs(self) -> Path:
        return self.local / "logs"

    @property
    def gcs_data(self) -> Path:
        return self.local / "gcs"

    @property
    def bigquery_data(self) -> Path:
        return self.local / "bigquery"

    @property
    def spark_events(self) -> Path:
        """The event logs of Spark jobs."""
        return self.local / "spark-events"

    @property
    def airflow_home(self) -> Path:
        return self.local / "airflow"

    @property
    def database(self) -> Path:
        """The folder of PostgreSQL's data, with Airflow's metadata.

        If it is deleted, the next start makes an empty database.
        """
        return self.local / "database"

    @property
    def database_socket(self) -> Path:
        """The folder of PostgreSQL's socket: `run` if the socket's path is short enough there.

        Otherwise it is a folder of its own in the system's temporary folder.
        """
        longest = self.run / ".s.PGSQL.65535.lock"
        return self.run if _fits(longest) else _in_temporary_folder(self.local)

    @property
    def spark_code(self) -> Path:
        """The file that names the uploaded Spark job, for the runner `bigquery_procedure`."""
        return self.local / "spark_code.json"

    @property
    def client_tools(self) -> Path:
        """The folder of the configuration files of `gcloud`, `gsutil` and `bq`."""
        return self.local / "clients"

    @property
    def stack_env(self) -> Path:
        """A file of environment variables, by which clients find the stack while it is up (client_config.py)."""
        return self.local / "stack.env"

    @property
    def ports_file(self) -> Path:
        return self.run / "ports.json"

    @property
    def lock_file(self) -> Path:
        return self.run / "lock"

    @property
    def started_file(self) -> Path:
        """A file that exists from the time at which all parts have been started until the stack is stopped."""
        return self.run / "started"

    @property
    def supervisor_conf(self) -> Path:
        return self.run / "supervisord.conf"

    @property
    def supervisor_socket(self) -> Path:
        """The path of supervisord's socket: in `run`, or in the system's temporary folder if that would be too long."""
        socket = self.run / "supervisor.sock"
        return socket if _fits(socket) else _in_temporary_folder(self.local).with_suffix(".sock")

    def log_of(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def make_folders(self) -> None:
        for folder in (
            self.run,
            self.logs,
            self.gcs_data,
            self.bigquery_data,
            self.spark_events,
            self.airflow_home / "config",
            self.database,
            self.client_tools,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        self.database_socket.mkdir(mode=0o700, exist_ok=True)

    def remove_sockets(self) -> None:
        """Delete the sockets of a stopped stack, and their folder if it is a temporary one."""
        self.supervisor_socket.unlink(missing_ok=True)
        if self.database_socket != self.run:
            shutil.rmtree(self.database_socket, ignore_errors=True)


def _fits(socket: Path) -> bool:
    return len(str(socket).encode()) <= MAX_SOCKET_PATH_BYTES


def _in_temporary_folder(local: Path) -> Path:
    name = hashlib.sha256(str(local).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"dedup-clone-{name}"
