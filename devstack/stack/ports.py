"""Chooses the stack's ports: the default ones, or free ones where these are taken. They stay over restarts."""

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    """`gcs_tls` is for gsutil, which needs TLS, and `gcs_for_gcloud` for gcloud, which needs gcloud_proxy."""

    gcs: int = 4443
    gcs_tls: int = 4444
    gcs_for_gcloud: int = 4445
    bigquery: int = 9050
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
    def airflow_url(self) -> str:
        return f"http://{HOST}:{self.airflow}"

    @property
    def spark_history_url(self) -> str:
        return f"http://{HOST}:{self.spark_history}"


DEFAULT = Ports()


@dataclass(frozen=True)
class PortChoice:
    """The chosen ports, and a message for each port that had to change."""

    ports: Ports
    moved: tuple[str, ...]


def is_free(port: int) -> bool:
    """Whether a server could listen on the port. It is taken, too, when a server listens on all addresses."""
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


def any_free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def read_saved(path: Path) -> Ports | None:
    """The ports of the last start, or None when there was none or its file cannot be read."""
    if not path.exists():
        return None
    try:
        return Ports(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None


def choose(path: Path) -> PortChoice:
    """Chooses for each part the port of the last start if it is free, or the default port, or any free port."""
    default, saved = asdict(DEFAULT), asdict(read_saved(path) or DEFAULT)
    chosen: dict[str, int] = {}
    moved: list[str] = []
    for name, wanted in saved.items():
        candidates = [port for port in (wanted, default[name]) if port not in chosen.values()]
        chosen[name] = next((port for port in candidates if is_free(port)), 0) or any_free_port()
        if chosen[name] != wanted:
            moved.append(f"port {wanted} is taken by another program: {name} uses {chosen[name]} instead")
    ports = Ports(**chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chosen, indent=1) + "\n")
    return PortChoice(ports, tuple(moved))
