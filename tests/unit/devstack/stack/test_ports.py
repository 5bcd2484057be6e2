import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from devstack.stack import ports


@contextmanager
def listener(address: str = "127.0.0.1") -> Iterator[int]:
    with socket.socket() as server:
        server.bind((address, 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_port_with_a_listener_is_taken(address: str) -> None:
    with listener(address) as port:
        assert not ports.is_free(port)


def test_port_is_free_again_after_its_listener_has_gone() -> None:
    port = ports.any_free_port()  # none that an outgoing connection could take meanwhile
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
    assert ports.is_free(port)


def test_taken_port_is_replaced_and_said(tmp_path: Path) -> None:
    with listener() as taken:
        kept = asdict(ports.DEFAULT) | {"airflow": taken}
        (tmp_path / "ports.json").write_text(json.dumps(kept))
        choice = ports.choose(tmp_path / "ports.json")
    assert choice.ports.airflow != taken
    line = next(line for line in choice.moved if "airflow" in line)
    assert str(taken) in line
    assert str(choice.ports.airflow) in line


def test_chosen_ports_are_kept_over_restarts(tmp_path: Path) -> None:
    free: dict[str, int] = {}
    for name in asdict(ports.DEFAULT):
        free[name] = ports.any_free_port(free.values())
    (tmp_path / "ports.json").write_text(json.dumps(free))
    choice = ports.choose(tmp_path / "ports.json")
    assert asdict(choice.ports) == free
    assert choice.moved == ()
    assert ports.read_saved(tmp_path / "ports.json") == choice.ports


def test_no_two_parts_get_the_same_port(tmp_path: Path) -> None:
    one = ports.any_free_port()
    (tmp_path / "ports.json").write_text(json.dumps(dict.fromkeys(asdict(ports.DEFAULT), one)))
    choice = ports.choose(tmp_path / "ports.json")
    chosen = list(asdict(choice.ports).values())
    assert len(set(chosen)) == len(chosen)
    assert all(line.startswith(f"port {one} is used by gcs: ") for line in choice.moved)


def test_a_free_port_that_is_chosen_already_is_not_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ports.any_free_port()
    with listener() as taken:
        monkeypatch.setattr(ports, "FREE_PORTS", [taken, free - 1, free])
        assert {ports.any_free_port({free - 1}) for _ in range(20)} == {free}


def test_linux_gives_no_free_port_to_an_outgoing_connection_before_its_server_listens() -> None:
    # https://docs.kernel.org/networking/ip-sysctl.html, ip_local_port_range: by default 32768 to 60999.
    assert all(ports.any_free_port() < 32_768 for _ in range(20))


@pytest.mark.parametrize("text", ["", "[]", '{"unknown": 1}'])
def test_unreadable_ports_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text)
    assert ports.read_saved(tmp_path / "ports.json") is None
