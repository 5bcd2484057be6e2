"""One job: what was asked, how far it is, how it ended. Kept as one JSON file that outlives the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from devstack.bigquery.errors import StandInError

KINDS = ("query", "load", "extract")
PENDING, RUNNING, DONE = "PENDING", "RUNNING", "DONE"


@dataclass(frozen=True)
class JobRecord:
    """`statistics` are those of the API's resource without the times; `configuration` is as the user sent it, with
    the defaults that BigQuery fills in. `error` is an ErrorProto.
    """

    project: str
    location: str
    job_id: str
    configuration: Mapping[str, Any]
    created_us: int
    state: str = PENDING
    started_us: int | None = None
    ended_us: int | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    parent_job_id: str | None = None
    request_id: str | None = None
    upload: str | None = None  # the file that came with the request

    @property
    def key(self) -> str:
        return job_key(self.project, self.location, self.job_id)

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if kind in self.configuration)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, content: bytes) -> JobRecord:
        return cls(**json.loads(content))


def job_key(project: str, location: str, job_id: str) -> str:
    return f"{project}:{location}.{job_id}"


def error_proto(error: StandInError) -> dict[str, Any]:
    return {"reason": error.reason, "location": getattr(error, "location", ""), "message": error.message}
