"""Fakes the methods of BigQuery's jobs API that a procedure call needs (insert, get, cancel), as a real HTTP server."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.contract.dataproc.fake.faults import Faults, Refused
from tests.contract.dataproc.fake.service_state import Run, ServiceState

_HTTP = {
    "UNAVAILABLE": (503, "backendError"),
    "INTERNAL": (500, "internalError"),
    "DEADLINE_EXCEEDED": (504, "backendError"),
    "RESOURCE_EXHAUSTED": (403, "quotaExceeded"),
    "ABORTED": (503, "backendError"),
    "PERMISSION_DENIED": (403, "accessDenied"),
    "NOT_FOUND": (404, "notFound"),
    "ALREADY_EXISTS": (409, "duplicate"),
    "INVALID_ARGUMENT": (400, "invalid"),
}
_ENDED = {"failed": "invalidQuery", "cancelled": "stopped"}
_STATISTICS = {"startTime": "1795000000000", "endTime": "1795000060000"}  # of each run that has ended: a minute
_CALLED = re.compile(r"CALL `([^`]+)`\(@request\)")


class FakeProcedures:
    """The server. `requests`: pairs of "InsertJob" and the configuration of each inserted job."""

    def __init__(self) -> None:
        self.reset()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer("GetJob", lambda: fake.get(self._job()))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path.split("?")[0].endswith("/cancel"):
                    self._answer("CancelJob", lambda: fake.cancel(self._job()))
                else:
                    self._answer("InsertJob", lambda: fake.insert(json.loads(body)))

            def _job(self) -> str:
                return self.path.split("?")[0].split("/jobs/")[1].removesuffix("/cancel")

            def _answer(self, method: str, answer: Any) -> None:
                try:
                    status, body = 200, fake.faults.serve(method, answer)
                except Refused as refused:
                    status, reason = _HTTP[refused.code]
                    error = {"reason": reason, "message": str(refused)}
                    body = {"error": {"code": status, "message": str(refused), "errors": [error]}}
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def reset(self, **state: Any) -> ServiceState:
        """Forget everything. `state`: fields of the new state, which is returned."""
        self.state, self.faults, self.requests = ServiceState(**state), Faults(), []
        return self.state

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def insert(self, body: dict[str, Any]) -> dict[str, Any]:
        configuration = body["configuration"]
        if not _CALLED.search(configuration["query"]["query"]):
            raise Refused("INVALID_ARGUMENT", "the script calls no procedure")
        (parameter,) = configuration["query"]["queryParameters"]
        run = self.state.begin(body["jobReference"]["jobId"], parameter["parameterValue"]["value"])
        self.requests.append(("InsertJob", configuration))
        return self._job(run)

    def get(self, name: str) -> dict[str, Any]:
        run = self.state.run(name)
        run.poll()
        return self._job(run)

    def cancel(self, name: str) -> dict[str, Any]:
        return {"kind": "bigquery#jobCancelResponse", "job": self._job(self.state.cancel(name))}

    def _job(self, run: Run) -> dict[str, Any]:
        active = "UNKNOWN" if self.state.is_newer else "RUNNING"
        status: dict[str, Any] = {"state": active if run.outcome is None else "DONE"}
        if run.outcome in _ENDED:
            status["errorResult"] = {"reason": _ENDED[run.outcome], "message": run.message}
        statistics = {"creationTime": str(int(run.created_at.timestamp() * 1000))}
        if run.outcome is not None:
            statistics |= _STATISTICS
        return {
            "jobReference": {"projectId": "my-project", "jobId": run.name, "location": "EU"},
            "configuration": {"query": {"query": "CALL"}},
            "status": status,
            "statistics": {} if self.state.is_newer else statistics,
        }
