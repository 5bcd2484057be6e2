"""Receives files that are sent with a load job, in a multipart request or in a resumable session of requests."""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotFound
from bigquery_standin.rest.job_handlers import new_job_record
from bigquery_standin.rest.job_resource import job_resource
from bigquery_standin.rest.request_response import ApiResponse
from bigquery_standin.stand_in import StandIn

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(frozen=True)
class UploadSession:
    """One resumable upload. `body`: the job resource. `path`: the file with what has arrived so far."""

    project: str
    user: str
    body: dict[str, Any]
    path: Path


def parse_multipart(content_type: str, content: bytes) -> tuple[bytes, bytes]:
    """The parts of a multipart request: the job resource as JSON, and the file. Raises Invalid unless there are two."""
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + content)
    parts = [part for part in message.iter_parts()] if message.is_multipart() else []
    if len(parts) != 2:
        raise Invalid(f"Multipart upload has [{len(parts)}] parts, expected [2]: the job as JSON and the file.")
    metadata, file = (part.get_payload(decode=True) for part in parts)
    return bytes(metadata), bytes(file)


class Uploads:
    """The open uploads. Threads may share it."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._lock = threading.Lock()
        self._sessions: dict[str, UploadSession] = {}

    def open(self, project: str, user: str, body: dict[str, Any]) -> str:
        """Opens a resumable session and returns its id."""
        upload_id = uuid.uuid4().hex
        path = self._stand_in.uploads / upload_id
        path.touch()
        with self._lock:
            self._sessions[upload_id] = UploadSession(project, user, body, path)
        return upload_id

    def append(self, upload_id: str, content_range: str | None, content: bytes, base_url: str) -> ApiResponse:
        """Add content to an upload.

        Responds with 308 and the range that has arrived, or starts the job after the last byte. Raises NotFound for an
        unknown upload, Invalid for a wrong Content-Range, and what `start` raises.
        """
        with self._lock:
            session = self._sessions.get(upload_id)
            if session is None:
                raise NotFound(f"Not found: upload session [{upload_id}]: start the upload again.")
            arrived = session.path.stat().st_size
            total = self._write_content(session, arrived, content_range, content)
            arrived = session.path.stat().st_size
            if total is None or arrived < total:
                return ApiResponse(None, 308, {"Range": f"bytes=0-{arrived - 1}"} if arrived else {})
            del self._sessions[upload_id]
        return self.start(session.project, session.user, session.body, session.path, base_url)

    def start(self, project: str, user: str, body: dict[str, Any], path: Path, base_url: str) -> ApiResponse:
        """Starts the load job of an uploaded file. Deletes the file if the job cannot be started.

        Raises what `new_job_record` and `JobRunner.insert` raise, and Invalid for another kind of job.
        """
        try:
            record = new_job_record(self._stand_in, project, body, user, upload=path.name)
            if record.kind != "load":
                raise Invalid(f"An upload needs a load job, the configuration has [{record.kind}].")
            self._stand_in.jobs.insert(record)
        except Exception:
            path.unlink()
            raise
        return ApiResponse(job_resource(record, base_url))

    def store(self, content: bytes) -> Path:
        """Writes an uploaded file, and returns its path."""
        path = self._stand_in.uploads / uuid.uuid4().hex
        path.write_bytes(content)
        return path

    @staticmethod
    def _write_content(session: UploadSession, arrived: int, content_range: str | None, content: bytes) -> int | None:
        """Writes the content to the session's file. Returns the total size, None if the client does not know it yet.

        `arrived`: how many bytes the file has so far. `content_range`: None or empty if this is the whole content.
        """
        if not content_range:
            session.path.write_bytes(content)
            return len(content)
        parsed = _CONTENT_RANGE.fullmatch(content_range)
        if parsed is None:
            raise Invalid(f"Invalid Content-Range [{content_range}]: expected [bytes FIRST-LAST/TOTAL].")
        first, _, total = parsed.groups()
        if first is not None:
            if int(first) > arrived:
                raise Invalid(f"Content-Range starts at [{first}], but only [{arrived}] bytes have arrived.")
            with session.path.open("ab") as stream:
                stream.write(content[arrived - int(first) :])
        return None if total == "*" else int(total)
