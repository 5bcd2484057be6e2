"""Ports of the stack: the usual ones, or free ones where those are taken, kept over restarts."""

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    """`gcs_tls` is for gsutil, which speaks nothing but TLS; `gcs_door` is for gcloud (see storage_door)."""

    gcs: int = 4443
    gcs_tls: int = 4444
    gcs_door: int = 4445
    bigquery: int = 9050
    airflow: int = 8080

    @property
    def gcs_url(self) -> str:
        return f"http://{HOST}:{self.gcs}"

    @property
    def gcs_door_url(self) -> str:
        return f"http://{HOST}:{self.gcs_door}"

    @property
    def bigquery_url(self) -> str:
        return f"http://{HOST}:{self.bigquery}"

    @property
    def airflow_url(self) -> str:
        return f"http://{HOST}:{self.airflow}"


USUAL = Ports()


@dataclass(frozen=True)
class Choice:
    """The chosen ports and, for the person at the terminal, a line for each that had to move."""

    ports: Ports
    moved: tuple[str, ...]


def is_free(port: int) -> bool:
    """Whether a server may listen on the port. A listener on all addresses counts as taken, too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: without it, connections that have just closed make a free port look taken.
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


def read_kept(path: Path) -> Ports | None:
    """The ports of the last start, or None when there was none or its file is not readable as ports."""
    if not path.exists():
        return None
    try:
        return Ports(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None


def choose(path: Path) -> Choice:
    """Picks a free port for each part: the one kept from the last start, the usual one, or any."""
    usual, kept = asdict(USUAL), asdict(read_kept(path) or USUAL)
    chosen: dict[str, int] = {}
    moved: list[str] = []
    for name, wanted in kept.items():
        candidates = [port for port in (wanted, usual[name]) if port not in chosen.values()]
        chosen[name] = next((port for port in candidates if is_free(port)), 0) or any_free_port()
        if chosen[name] != wanted:
            moved.append(f"port {wanted} is taken by another program: {name} uses {chosen[name]} instead")
    ports = Ports(**chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chosen, indent=1) + "\n")
    return Choice(ports, tuple(moved))
