"""A gate in front of one server: passes every request on, and holds the one that somebody waits for.

To kill a process at an exact step one must know that it is there. A step of the protocol is a request to storage or
BigQuery: the gate holds that request before it is passed on, or its answer after it was carried out, for as long as
it takes to kill. Whose request it is, the connection says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from devstack.stack.ports import HOST
from devstack.stack.storage_door import passed_on
from soak.held_request import Request, Service

UPSTREAM_TIMEOUT_S = 300.0


class When(StrEnum):
    """Before: nothing has been done. After: it was carried out, and nobody has been told."""

    BEFORE = "before"
    AFTER = "after"


@dataclass
class Hold:
    """Holds the first request that `matches`; the run lets it go or drops it, and its connection with it."""

    matches: Callable[[Request], bool]
    when: When
    request: Request | None = None
    client_port: int = 0
    _hit: threading.Event = field(default_factory=threading.Event)
    _decided: threading.Event = field(default_factory=threading.Event)
    _dropped: bool = False

    def is_hit(self) -> bool:
        return self._hit.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether the request came in time."""
        return self._hit.wait(seconds)

    def release(self) -> None:
        """The request (or its answer) goes on."""
        self._decided.set()

    def drop(self) -> None:
        """The request (or its answer) is lost, as when its sender has died."""
        self._dropped = True
        self._decided.set()

    def take(self, request: Request, client_port: int) -> bool:
        """Blocks the request's own thread until it was decided; whether it goes on."""
        self.request, self.client_port = request, client_port
        self._hit.set()
        self._decided.wait()
        return not self._dropped


class Gate:
    """Listens on a free port from `start` on."""

    def __init__(self, service: Service, upstream_url: str) -> None:
        self.service = service
        self.upstream = urlsplit(upstream_url).netloc
        self._lock = threading.Lock()
        self._holds: list[Hold] = []
        handler = type("BoundPassage", (_Passage,), {"gate": self})
        self._server = _Server((HOST, 0), handler)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name=f"gate {self.service}", daemon=True).start()

    def stop(self) -> None:
        for hold in self._take_all():
            hold.drop()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, matches: Callable[[Request], bool], when: When) -> Hold:
        hold = Hold(matches, when)
        with self._lock:
            self._holds.append(hold)
        return hold

    def forget(self, hold: Hold) -> None:
        """No request is held by it from now on."""
        with self._lock:
            if hold in self._holds:
                self._holds.remove(hold)
        hold.release()

    def take(self, request: Request, when: When) -> Hold | None:
        """The hold that the request falls into, which holds no other."""
        with self._lock:
            found = next((hold for hold in self._holds if hold.when == when and hold.matches(request)), None)
            if found:
                self._holds.remove(found)
            return found

    def _take_all(self) -> list[Hold]:
        with self._lock:
            holds, self._holds = self._holds, []
        return holds


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed leaves a broken connection: that is what the runs are for."""


class _Passage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    gate: Gate

    def _handle(self) -> None:
        body = self._read_body()
        request = Request(self.gate.service, self.command, self.path, body)
        if not self._may_go_on(request, When.BEFORE):
            return
        upstream = HTTPConnection(self.gate.upstream, timeout=UPSTREAM_TIMEOUT_S)
        try:
            upstream.request(self.command, self.path, body or None, self._headers_to_send(body))
            response = upstream.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            self._hang_up()  # as a server does that has just been killed
            return
        finally:
            upstream.close()
        if self._may_go_on(request, When.AFTER):
            self._answer(response, content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # the names that http.server calls

    def _may_go_on(self, request: Request, when: When) -> bool:
        hold = self.gate.take(request, when)
        goes_on = hold is None or hold.take(request, self.client_address[1])
        if not goes_on:
            self._hang_up()
        return goes_on

    def _hang_up(self) -> None:
        self.close_connection = True

    def _headers_to_send(self, body: bytes) -> dict[str, str]:
        headers = dict(passed_on(self.headers.items()))
        kept = {name: value for name, value in headers.items() if name.lower() not in ("accept-encoding", "expect")}
        lengths = [name for name in kept if name.lower() == "content-length"]
        for name in lengths:
            del kept[name]
        return (
            {**kept, "Content-Length": str(len(body))} if body or lengths or self.command in ("POST", "PUT") else kept
        )

    def _read_body(self) -> bytes:
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            return b"".join(iter(self._read_chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _answer(self, response: HTTPResponse, content: bytes) -> None:
        """Addresses of the server in the answer become the gate's: the next request comes through it again."""
        theirs, ours = self.gate.upstream, self.gate.address
        if "json" in (response.getheader("Content-Type") or ""):
            content = content.replace(theirs.encode(), ours.encode())
        self.send_response_only(response.status, response.reason)
        for name, value in passed_on(response.getheaders()):
            if name.lower() == "location":
                value = value.replace(theirs, ours)
            if name.lower() != "content-length":
                self.send_header(name, value)
        if self.command == "HEAD":
            self.send_header("Content-Length", response.getheader("Content-Length") or "0")
        elif response.status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """A line for each request would only fill the disk."""
