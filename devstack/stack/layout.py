"""Defines the paths of the local stack's files. Each checkout has one stack, by default in its folder `.local`."""

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LOCAL_DIR_VARIABLE = "DEDUP_CLONE_LOCAL_DIR"
DAGS_FOLDER_VARIABLE = "DEDUP_CLONE_DAGS_FOLDER"

# The path of a unix socket may have 103 bytes on macOS and 107 on Linux.
MAX_SOCKET_PATH_BYTES = 100
LONGEST_SOCKET = ".s.PGSQL.5432.lock"


class StackError(Exception):
    """What was asked for cannot be done, or a part of the stack failed. The message says what to do next."""


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
        self.plugins_folder = checkout / "plugins"
        self.logs = self.local / "logs"
        self.gcs_data = self.local / "gcs"
        self.bigquery_data = self.local / "bigquery"
        self.spark_code = self.local / "spark_code.json"
        self.airflow_home = self.local / "airflow"
        self.passwords = self.airflow_home / "passwords.json"
        self.database = self.local / "database"  # Airflow's metadata; the next start makes it anew if it is deleted
        self.keys = self.local / "keys"
        self.client_tools = self.local / "clients"  # configuration files of `gcloud` and `bq`
        self.stack_env = self.local / "stack.env"
        self.run = self.local / "run"
        self.ports_file = self.run / "ports.json"
        self.lock_file = self.run / "lock"
        self.started_file = self.run / "started"
        self.supervisor_conf = self.run / "supervisord.conf"
        self.sockets = self.run
        if len(bytes(self.run / LONGEST_SOCKET)) > MAX_SOCKET_PATH_BYTES:
            name = hashlib.sha256(bytes(self.local)).hexdigest()[:16]
            self.sockets = Path(tempfile.gettempdir()) / f"dedup-clone-{name}"
        self.supervisor_socket = self.sockets / "supervisor.sock"

    def log_of(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def make_folders(self) -> None:
        data = (self.gcs_data, self.bigquery_data, self.airflow_home / "config", self.database)
        for folder in (self.run, self.logs, self.keys, self.client_tools, *data):
            folder.mkdir(parents=True, exist_ok=True)
        self.sockets.mkdir(mode=0o700, exist_ok=True)

    def remove_sockets(self) -> None:
        """Delete the sockets of a stopped stack, and their folder if it is a temporary one."""
        self.supervisor_socket.unlink(missing_ok=True)
        if self.sockets != self.run:
            shutil.rmtree(self.sockets, ignore_errors=True)


def package_folder(module: str, package: str) -> Path:
    """The folder of an installed module, which has binaries. Raises StackError if its `package` is not installed."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise StackError(f"The package {package} is missing from the environment: run `make setup`.")
    return Path(found.origin).parent
