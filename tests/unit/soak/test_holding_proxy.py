"""The holding proxy forwards every request, and holds only the first request that a hold matches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from devstack.http_calls import Answer, Unreachable, call
from testkit.holding_proxy import HoldingProxy, HoldPhase
from testkit.proxied_request import Service

TIMEOUT_S = 30.0


class Upstream(BaseHTTPRequestHandler):
    """A server that records the requested paths, and whose answers contain links to itself, as those of storage do."""

    protocol_version = "HTTP/1.1"
    reached: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.reached.append(self.path)
        body = b'{"link": "http://%s/next"}' % self.headers["Host"].encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Location", f"http://{self.headers['Host']}/session")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def reached() -> list[str]:
    return []


@pytest.fixture
def proxy(reached: list[str]) -> Iterator[HoldingProxy]:
    handler = type("BoundUpstream", (Upstream,), {"reached": reached})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = HoldingProxy(Service.STORAGE, f"http://127.0.0.1:{server.server_port}")
        proxy.start()
        yield proxy
        proxy.stop()
        server.shutdown()


class Sender(threading.Thread):
    """Sends one request in a thread. `answer`: None before the answer arrives, and if the connection breaks."""

    def __init__(self, proxy: HoldingProxy, path: str) -> None:
        super().__init__(daemon=True)
        self.answer: Answer | None = None
        self._url = f"{proxy.url}{path}"
        self.start()

    def run(self) -> None:
        try:
            self.answer = call("POST", self._url, body={"a": 1}, timeout_s=TIMEOUT_S)
        except Unreachable:
            self.answer = None


def test_a_request_without_a_hold_is_forwarded_and_links_point_to_the_proxy(proxy: HoldingProxy) -> None:
    answer = call("POST", f"{proxy.url}/x", body={})
    assert (answer.status, answer.json()) == (201, {"link": f"{proxy.url}/next"})


def test_a_request_held_before_reaches_the_server_when_released(proxy: HoldingProxy, reached: list[str]) -> None:
    hold = proxy.hold(lambda request: request.path == "/held", HoldPhase.BEFORE)
    sender = Sender(proxy, "/held")
    assert hold.wait(TIMEOUT_S)
    assert reached == []
    call("POST", f"{proxy.url}/other", body={})
    hold.release()
    sender.join(TIMEOUT_S)
    assert reached == ["/other", "/held"]
    assert sender.answer
    assert sender.answer.status == 201


def test_a_request_held_after_has_reached_the_server(proxy: HoldingProxy, reached: list[str]) -> None:
    hold = proxy.hold(lambda request: request.path == "/held", HoldPhase.AFTER)
    sender = Sender(proxy, "/held")
    assert hold.wait(TIMEOUT_S)
    assert reached == ["/held"]
    assert sender.answer is None
    hold.drop()
    sender.join(TIMEOUT_S)
    assert sender.answer is None


def test_a_dropped_request_never_arrives_and_breaks_its_connection(proxy: HoldingProxy, reached: list[str]) -> None:
    hold = proxy.hold(lambda request: True, HoldPhase.BEFORE)
    sender = Sender(proxy, "/held")
    assert hold.wait(TIMEOUT_S)
    hold.drop()
    sender.join(TIMEOUT_S)
    assert (sender.answer, reached) == (None, [])


def test_a_hold_holds_one_request_only(proxy: HoldingProxy, reached: list[str]) -> None:
    hold = proxy.hold(lambda request: True, HoldPhase.BEFORE)
    sender = Sender(proxy, "/first")
    assert hold.wait(TIMEOUT_S)
    call("POST", f"{proxy.url}/second", body={})
    assert reached == ["/second"]
    proxy.forget(hold)
    sender.join(TIMEOUT_S)
    assert reached == ["/second", "/first"]
