"""A proxy between `gcloud storage` and fake-gcs-server, whose answers to two kinds of requests gcloud cannot use.

`python -m devstack.stack.gcloud_proxy --port P --storage URL` starts it. Before gcloud copies a folder, it requests the
bucket's storage layout, which fake-gcs-server does not know; the proxy answers that the bucket has no folders. To a
deletion fake-gcs-server responds with 200 and `null`, upon which gcloud fails; the proxy responds with 204, as Cloud
Storage does. A request with Transfer-Encoding is refused. All other requests are forwarded.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from devstack.stack.ports import HOST

_LAYOUT = re.compile(r"^/storage/v1/b/(?P<bucket>[^/?]+)/storageLayout(\?|$)")
# These headers belong to one connection and not to the message (RFC 9110, section 7.6.1).
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"})
_OWN_HEADERS = frozenset({"host", "server", "date"})
UPSTREAM_TIMEOUT_S = 120.0


def storage_layout(bucket: str) -> dict[str, object]:
    """The answer to a request for the bucket's storage layout: the bucket has no folders."""
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket,
        "location": "US",
        "locationType": "multi-region",
        "hierarchicalNamespace": {"enabled": False},
    }


def forwarded_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that a proxy passes on: all but those about the connection, and those that the proxy sets itself."""
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP | _OWN_HEADERS]


class GcloudProxy(BaseHTTPRequestHandler):
    """Answers a request itself, or forwards it to the server at `storage_address`."""

    protocol_version = "HTTP/1.1"
    storage_address: str

    def _handle(self) -> None:
        layout = _LAYOUT.match(self.path)
        if self.command == "GET" and layout:
            self._answer(200, storage_layout(layout["bucket"]))
        elif "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._answer(411, {"error": {"code": 411, "message": "The proxy for gcloud needs a Content-Length."}})
        else:
            self._forward()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # the names that http.server calls

    def _answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer_deleted(self) -> None:
        self.send_response(204)
        self.end_headers()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with closing(HTTPConnection(self.storage_address, timeout=UPSTREAM_TIMEOUT_S)) as storage:
            try:
                storage.request(self.command, self.path, body or None, dict(forwarded_headers(self.headers.items())))
                response = storage.getresponse()
            except (OSError, HTTPException) as error:
                self._answer(502, {"error": {"code": 502, "message": f"The local storage does not answer: {error}"}})
            else:
                self._pass_on(response)

    def _pass_on(self, response: HTTPResponse) -> None:
        with response:
            if self.command == "DELETE" and response.status == 200:
                response.read()
                self._answer_deleted()
                return
            self.send_response_only(response.status, response.reason)
            for name, value in forwarded_headers(response.getheaders()):
                self.send_header(name, value)
            if response.getheader("Content-Length") is None:
                # Without a length, the end of the connection marks the end of the answer.
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            shutil.copyfileobj(response, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a line for each request would only fill the disk."""


def serve(port: int, storage_url: str) -> ThreadingHTTPServer:
    """The proxy, which listens already. The caller must run and close it."""
    handler = type("BoundProxy", (GcloudProxy,), {"storage_address": urlsplit(storage_url).netloc})
    return ThreadingHTTPServer((HOST, port), handler)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.stack.gcloud_proxy", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--storage", required=True, help="address of the storage, http://host:port")
    options = parser.parse_args(arguments)
    with serve(options.port, options.storage) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
