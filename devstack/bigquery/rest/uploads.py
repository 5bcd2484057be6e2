"""Load jobs whose file comes with the request: multipart in one request, or a resumable session of several."""

from __future__ import annotations

import json
import re
import threading
import uuid
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

from devstack.bigquery.errors import Invalid, NotFound
from devstack.bigquery.rest.call import Answer
from devstack.bigquery.rest.job_resource import job_resource
from devstack.bigquery.rest.jobs import record_of
from devstack.bigquery.service import StandIn

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(frozen=True)
class Session:
    project: str
    body: dict[str, Any]
    path: Path


class Uploads:
    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def multipart(self, project: str, content_type: str, content: bytes, base_url: str) -> tuple[Any, bytes]:
        """The request's metadata and its file."""
        message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + content)
        parts = [part for part in message.iter_parts()] if message.is_multipart() else []
        if len(parts) != 2:
            raise Invalid(f"Multipart upload has [{len(parts)}] parts, expected [2]: the job as JSON and the file.")
        metadata, file = (part.get_payload(decode=True) for part in parts)
        return json.loads(bytes(metadata)), bytes(file)

    def open(self, project: str, body: dict[str, Any]) -> str:
        """A resumable session's id."""
        upload_id = uuid.uuid4().hex
        path = self._stand_in.uploads / upload_id
        path.touch()
        with self._lock:
            self._sessions[upload_id] = Session(project, body, path)
        return upload_id

    def append(self, upload_id: str, content_range: str | None, content: bytes, base_url: str) -> Answer:
        """Answers 308 with what has arrived, or starts the job after the last byte."""
        with self._lock:
            session = self._sessions.get(upload_id)
            if session is None:
                raise NotFound(f"Not found: upload session [{upload_id}]: start the upload again.")
            arrived = session.path.stat().st_size
            total = self._take(session, arrived, content_range, content)
            arrived = session.path.stat().st_size
            if total is None or arrived < total:
                return Answer(None, 308, {"Range": f"bytes=0-{arrived - 1}"} if arrived else {})
            del self._sessions[upload_id]
        return self.start(session.project, session.body, session.path, base_url)

    def start(self, project: str, body: dict[str, Any], path: Path, base_url: str) -> Answer:
        try:
            record = record_of(self._stand_in, project, body, upload=path.name)
            if record.kind != "load":
                raise Invalid(f"An upload needs a load job, the configuration has [{record.kind}].")
            self._stand_in.jobs.insert(record)
        except Exception:
            path.unlink()
            raise
        return Answer(job_resource(record, base_url))

    def store(self, content: bytes) -> Path:
        path = self._stand_in.uploads / uuid.uuid4().hex
        path.write_bytes(content)
        return path

    @staticmethod
    def _take(session: Session, arrived: int, content_range: str | None, content: bytes) -> int | None:
        """The total size, None while the client does not know it."""
        if not content_range:
            session.path.write_bytes(content)
            return len(content)
        found = _CONTENT_RANGE.fullmatch(content_range)
        if found is None:
            raise Invalid(f"Invalid Content-Range [{content_range}]: expected [bytes FIRST-LAST/TOTAL].")
        first, _, total = found.groups()
        if first is not None:
            if int(first) > arrived:
                raise Invalid(f"Content-Range starts at [{first}], but only [{arrived}] bytes have arrived.")
            with session.path.open("ab") as stream:
                stream.write(content[arrived - int(first) :])
        return None if total == "*" else int(total)
