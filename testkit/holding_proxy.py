"""Runs an HTTP proxy in front of one server. It can hold a request, or the response to it, until a test releases it.

Tests use it to kill a process at an exact step of a publish. Each step is a request to storage or BigQuery. While the
proxy holds that request or its response, the process that sent it waits at this step, and can be found by the port of
its connection and killed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from devstack.stack.ports import HOST

# A proxy passes on all headers but those about the connection (RFC 9110, section 7.6.1), and those that it sets itself.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"})
_NOT_FORWARDED = _HOP_BY_HOP | {"host", "server", "date"}
UPSTREAM_TIMEOUT_S = 300.0
MAX_TEXT_BYTES = 64 * 1024  # of a body are searched: JSON records of state are shorter, data files need no search
_NAME_IN_METADATA = re.compile(rb'"name":\s*"([^"]*)"')
_OBJECT_IN_PATH = re.compile(r"/b/[^/]+/o/([^/]+)")


class Service(StrEnum):
    """The service to which a proxy forwards its requests."""

    STORAGE = "storage"
    BIGQUERY = "bigquery"


@dataclass(frozen=True)
class ProxiedRequest:
    """One request. `target`: the path and query string of the request line, still percent-encoded."""

    service: Service
    method: str
    target: str
    body: bytes

    @cached_property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @cached_property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @cached_property
    def text(self) -> str:
        """The first MAX_TEXT_BYTES bytes of the body, decoded."""
        return self.body[:MAX_TEXT_BYTES].decode(errors="replace")

    @cached_property
    def object_name(self) -> str:
        """The name, without its bucket, of the object that a request to storage is about; empty if there is none."""
        match = _OBJECT_IN_PATH.search(urlsplit(self.target).path)
        if match:
            return unquote(match[1])
        if "name" in self.query:
            return self.query["name"]
        metadata_match = _NAME_IN_METADATA.search(self.body[:MAX_TEXT_BYTES]) if self.is_upload else None
        return metadata_match[1].decode() if metadata_match else ""

    @property
    def is_upload(self) -> bool:
        """Whether this is the first request of an upload, which names the object."""
        return self.method == "POST" and "/upload/storage/" in self.path

    @property
    def inserts_job(self) -> bool:
        """Whether this is a call of BigQuery's method jobs.insert."""
        return self.service is Service.BIGQUERY and self.method == "POST" and self.path.endswith("/jobs")

    def __str__(self) -> str:
        return f"{self.method} {self.object_name or self.path}"


class HoldPhase(StrEnum):
    """Whether the proxy holds a request or the response to it."""

    BEFORE = "before"  # the server has not received the request yet
    AFTER = "after"  # the server has responded, but the client has not received the response yet


@dataclass
class Hold:
    """An order to hold the first request for which `matches` is true, until `release` or `drop` is called.

    `request`, `client_port`: the held request and the port of the process that sent it, once a request is held.
    """

    matches: Callable[[ProxiedRequest], bool]
    phase: HoldPhase
    request: ProxiedRequest | None = None
    client_port: int = 0
    _holds_request: threading.Event = field(default_factory=threading.Event)
    _decided: threading.Event = field(default_factory=threading.Event)
    _dropped: bool = False

    def wait(self, seconds: float) -> bool:
        """Wait until a matching request has come, but at most `seconds`. Returns whether one has come."""
        return self._holds_request.wait(seconds)

    def release(self) -> None:
        """Forward the request (or its response)."""
        self._decided.set()

    def drop(self) -> None:
        """Forward nothing and close the connection, as when the process that sent the request has died."""
        self._dropped = True
        self._decided.set()

    def block(self, request: ProxiedRequest, client_port: int) -> bool:
        """Hold the request in the calling thread. Return True once it is released, False once it is dropped."""
        self.request, self.client_port = request, client_port
        self._holds_request.set()
        self._decided.wait()
        return not self._dropped


class HoldingProxy:
    """A proxy in front of the server `upstream_url`. It chooses a free port at once, and serves from `start` on."""

    def __init__(self, service: Service, upstream_url: str) -> None:
        self.service = service
        self.upstream = urlsplit(upstream_url).netloc
        self._lock = threading.Lock()
        self._holds: list[Hold] = []
        self._found: list[Hold] = []  # holds that have matched a request
        handler = type("BoundHandler", (_Handler,), {"proxy": self})
        self._server = _Server((HOST, 0), handler)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name=f"holding proxy {self.service}", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            holds, self._holds = [*self._holds, *self._found], []
        for hold in holds:
            hold.drop()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, matches: Callable[[ProxiedRequest], bool], phase: HoldPhase) -> Hold:
        """Hold the next request for which `matches` is true, or its response."""
        hold = Hold(matches, phase)
        with self._lock:
            self._holds.append(hold)
        return hold

    def forget(self, hold: Hold) -> None:
        """Cancel a hold: its request, if there is one, is released, and no later request is held."""
        with self._lock:
            if hold in self._holds:
                self._holds.remove(hold)
        hold.release()

    def find_hold(self, request: ProxiedRequest, phase: HoldPhase) -> Hold | None:
        """The hold for this request or its response, or None. The hold is removed, so that it acts only once."""
        with self._lock:
            found = next((hold for hold in self._holds if hold.phase == phase and hold.matches(request)), None)
            if found:
                self._holds.remove(found)
                self._found.append(found)
            return found


def _forwarded(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _NOT_FORWARDED]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Print no error: nearly all are those of connections whose client was killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: HoldingProxy

    def _handle(self) -> None:
        body = self._read_body()
        request = ProxiedRequest(self.proxy.service, self.command, self.path, body)
        if not self._is_released(request, HoldPhase.BEFORE):
            return
        upstream = HTTPConnection(self.proxy.upstream, timeout=UPSTREAM_TIMEOUT_S)
        try:
            upstream.request(self.command, self.path, body or None, self._headers_to_send(body))
            response = upstream.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            self.close_connection = True  # the client sees what it would see without the proxy: a broken connection
            return
        finally:
            upstream.close()
        if self._is_released(request, HoldPhase.AFTER):
            self._answer(response, content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # the names that http.server calls

    def _is_released(self, request: ProxiedRequest, phase: HoldPhase) -> bool:
        """Hold the request or its response if a hold matches. Returns False if the hold was dropped."""
        hold = self.proxy.find_hold(request, phase)
        released = hold is None or hold.block(request, self.client_address[1])
        self.close_connection = self.close_connection or not released
        return released

    def _headers_to_send(self, body: bytes) -> dict[str, str]:
        headers = dict(_forwarded(self.headers.items()))
        has_length = "Content-Length" in self.headers
        omitted = ("accept-encoding", "expect", "content-length")
        sent = {name: value for name, value in headers.items() if name.lower() not in omitted}
        if body or has_length or self.command in ("POST", "PUT"):
            sent["Content-Length"] = str(len(body))
        return sent

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
        """Send the response. In it the proxy's address replaces the server's, so that later requests use the proxy."""
        upstream_address, proxy_address = self.proxy.upstream, self.proxy.address
        if "json" in (response.getheader("Content-Type") or ""):
            content = content.replace(upstream_address.encode(), proxy_address.encode())
        self.send_response_only(response.status, response.reason)
        for name, value in _forwarded(response.getheaders()):
            if name.lower() == "location":
                value = value.replace(upstream_address, proxy_address)
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
        """Log nothing: a line for each request would only fill the disk."""
