"""Chooses the ports of the local stack: the default ones or, where other programs use these, free ones.

The chosen ports are stored, and used again by the next start.
"""

import json
import secrets
import socket
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"
# Linux gives the ports from 32768 on to outgoing connections, one of which could take a port before its server does.
FREE_PORTS = range(20_000, 30_000)


@dataclass(frozen=True)
class Ports:
    """The ports of the stack's servers. Cloud Storage and BigQuery have two each.

    `gcs_for_gcloud`: the proxy that gcloud needs. `bigquery_write`: the Storage Write API, by gRPC.
    """

    gcs: int = 4443
    gcs_for_gcloud: int = 4445
    bigquery: int = 9050
    bigquery_write: int = 9060
    airflow: int = 8080
    spark_history: int = 18080

    @property
    def gcs_url(self) -> str:
        return f"http://{HOST}:{self.gcs}"

    @property
    def gcs_for_gcloud_url(self) -> str:
        return f"http://{HOST}:{self.gcs_for_gcloud}"

    @property
    def bigquery_url(self) -> str:
        return f"http://{HOST}:{self.bigquery}"

    @property
    def bigquery_write_address(self) -> str:
        return f"{HOST}:{self.bigquery_write}"

    @property
    def airflow_url(self) -> str:
        return f"http://{HOST}:{self.airflow}"

    @property
    def spark_history_url(self) -> str:
        return f"http://{HOST}:{self.spark_history}"


DEFAULT = Ports()


@dataclass(frozen=True)
class PortChoice:
    """The chosen ports. `moved`: a message for each port that differs from the last start's or, if there was no earlier
    start, from the default.
    """

    ports: Ports
    moved: tuple[str, ...]


def is_free(port: int) -> bool:
    """Whether a server could listen on the port of 127.0.0.1. It is not free if a server listens on all addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this option, too. Without it a port looks taken while its last connections are closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def any_free_port(other_than: Collection[int] = ()) -> int:
    """A random free port of FREE_PORTS that is none of `other_than`."""
    while True:
        # `random` would draw the same ports in all processes that seed it with the same number, as test runners do.
        port = secrets.choice(FREE_PORTS)
        if port not in other_than and is_free(port):
            return port


def read_saved(path: Path) -> Ports | None:
    """The ports of the last start; None if there was none, or if the file is invalid."""
    if not path.exists():
        return None
    try:
        return Ports(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None


def choose(path: Path) -> PortChoice:
    """Choose and store the ports.

    Each server keeps its last port if that is free; otherwise it gets its default, otherwise any free port.
    """
    default, last = asdict(DEFAULT), asdict(read_saved(path) or DEFAULT)
    chosen: dict[str, int] = {}
    moved: list[str] = []
    for name, last_port in last.items():
        servers = {port: server for server, port in chosen.items()}
        candidates = [port for port in (last_port, default[name]) if port not in servers]
        port = next((port for port in candidates if is_free(port)), 0) or any_free_port(servers)
        if port != last_port:
            user = f"used by {servers[last_port]}" if last_port in servers else "taken by another program"
            moved.append(f"port {last_port} is {user}: {name} uses {port} instead")
        chosen[name] = port
    ports = Ports(**chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chosen, indent=1) + "\n")
    return PortChoice(ports, tuple(moved))
