"""Defines the paths of the local stack's files. Each checkout has one stack, by default in its folder `.local`."""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LOCAL_DIR_VARIABLE = "DEDUP_CLONE_LOCAL_DIR"
DAGS_FOLDER_VARIABLE = "DEDUP_CLONE_DAGS_FOLDER"
PLUGINS_FOLDER_VARIABLE = "DEDUP_CLONE_PLUGINS_FOLDER"

# The path of a unix socket may have 103 bytes on macOS and 107 on Linux.
MAX_SOCKET_PATH_BYTES = 100


class Layout:
    """The folders and files of one stack, as absolute paths.

    `local`: the folder of all files that the stack writes, except sockets whose paths would be too long. `run`: what
    belongs to the running processes. `started_file`: exists from the time at which all parts have been started until
    the stack is stopped. `stack_env`: environment variables by which clients find the stack while it is up.
    `spark_code`: names the uploaded Spark job, for the runner `bigquery_procedure`.
    """

    def __init__(self, environ: Mapping[str, str], checkout: Path = CHECKOUT) -> None:
        self.checkout = checkout
        self.local = Path(environ.get(LOCAL_DIR_VARIABLE) or checkout / ".local").resolve()
        self.dags_folder = Path(environ.get(DAGS_FOLDER_VARIABLE) or checkout / "dags").resolve()
        self.plugins_folder = Path(environ.get(PLUGINS_FOLDER_VARIABLE) or checkout / "plugins").resolve()
        self.logs = self.local / "logs"
        self.gcs_data = self.local / "gcs"
        self.bigquery_data = self.local / "bigquery"
        self.spark_events = self.local / "spark-events"
        self.spark_code = self.local / "spark_code.json"
        self.airflow_home = self.local / "airflow"
        self.database = self.local / "database"  # Airflow's metadata; the next start makes it anew if it is deleted
        self.client_tools = self.local / "clients"  # configuration files of `gcloud`, `gsutil` and `bq`
        self.stack_env = self.local / "stack.env"
        self.run = self.local / "run"
        self.ports_file = self.run / "ports.json"
        self.lock_file = self.run / "lock"
        self.started_file = self.run / "started"
        self.supervisor_conf = self.run / "supervisord.conf"
        self.supervisor_socket = self.run / "supervisor.sock"
        self.database_socket = self.run  # the folder of PostgreSQL's socket
        elsewhere = _in_temporary_folder(self.local)
        if not _fits(self.supervisor_socket):
            self.supervisor_socket = elsewhere.with_suffix(".sock")
        if not _fits(self.run / ".s.PGSQL.65535.lock"):
            self.database_socket = elsewhere

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
