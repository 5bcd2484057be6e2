"""Chooses the ports of the local stack: the default ones or, if other programs use these, free ones.

The chosen ports are stored, and used again by the next start.
"""

import json
import secrets
import socket
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"
# Linux gives the ports from 32768 on to outgoing connections, one of which could take a port before its server does.
FREE_PORTS = range(20_000, 30_000)


@dataclass(frozen=True)
class Ports:
    """The ports of the stack's servers. `bigquery_write`: the stand-in's Storage Write API, by gRPC."""

    gcs: int = 4443
    bigquery: int = 9050
    bigquery_write: int = 9060
    airflow: int = 8080


def url(port: int) -> str:
    return f"http://{HOST}:{port}"


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
    try:
        return Ports(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def choose(path: Path, log: Callable[[str], None]) -> Ports:
    """Choose and store the ports.

    Each server keeps its last port if that is free; otherwise it gets its default, otherwise any free port. `log` gets
    a line for each port that differs from the last start's or, if there was no earlier start, from the default.
    """
    defaults = asdict(Ports())
    chosen: dict[str, int] = {}
    for name, last in asdict(read_saved(path) or Ports()).items():
        taken = chosen.values()
        free = (port for port in (last, defaults[name]) if port not in taken and is_free(port))
        chosen[name] = next(free, 0) or any_free_port(taken)
        if chosen[name] != last:
            log(f"  port {last} is taken by another program: {name} uses {chosen[name]} instead")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chosen, indent=1) + "\n")
    return Ports(**chosen)
