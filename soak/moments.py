"""The moments of a publish at which something is killed: each is one request, held by a gate.

`Moment.name` is `<step>.<what is about to happen, or has just happened>`. The order is that of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from soak.gate import When
from soak.held_request import Request, Service

Matches = Callable[[str, Request], bool]


@dataclass(frozen=True)
class Moment:
    """`matches(feed, request)`. `queued`: the job of this step waits in the stand-in's queue until after the kill.

    `done`: the kill waits until the job that the held request made has ended. `deferred`: it waits until Airflow says
    that this task is deferred. `idle`: the moment is there before the delivery lands.
    """

    name: str
    how: str
    service: Service
    when: When
    matches: Matches
    queued: str = ""
    done: bool = False
    deferred: str = ""
    idle: bool = False

    @property
    def step(self) -> str:
        return self.name.split(".")[0]


def _writes(pattern: str, *contents: str) -> Matches:
    """An upload to the feed's state whose object matches, and whose content has all of these texts."""
    compiled = re.compile(pattern)

    def matches(feed: str, request: Request) -> bool:
        name = request.object_name
        if not request.is_upload or not name.startswith(f"{feed}/"):
            return False
        return bool(compiled.fullmatch(name.removeprefix(f"{feed}/"))) and all(c in request.text for c in contents)

    return matches


def _deletes(pattern: str) -> Matches:
    compiled = re.compile(pattern)

    def matches(feed: str, request: Request) -> bool:
        name = request.object_name.removeprefix(f"{feed}/")
        return request.method == "DELETE" and request.object_name.startswith(f"{feed}/") and bool(compiled.match(name))

    return matches


def _reads_landing(feed: str, request: Request) -> bool:
    name = request.object_name
    return request.method == "GET" and name.startswith(f"{feed}/snapshot_id=") and name.endswith(".parquet")


def _lists_landing(feed: str, request: Request) -> bool:
    return request.path.endswith("/b/landing/o") and request.query.get("prefix") == f"{feed}/"


def _inserts(step: str) -> Matches:
    def matches(feed: str, request: Request) -> bool:
        return request.inserts_job and bool(re.search(rf'"dedup_clone-{feed}-\d+-\w+-{step}-\d+"', request.text))

    return matches


def _polls(step: str) -> Matches:
    def matches(feed: str, request: Request) -> bool:
        path = rf"/jobs/dedup_clone-{feed}-\d+-\w+-{step}-\d+$"
        return request.method == "GET" and bool(re.search(path, request.path))

    return matches


def _observes(feed: str, request: Request) -> bool:
    return request.inserts_job and "INFORMATION_SCHEMA" in request.text and "PARTITIONS" in request.text


def _loads_status(feed: str, request: Request) -> bool:
    return request.service is Service.BIGQUERY and request.method == "POST" and "dedup_clone_status" in request.text


_BUCKET, _WAREHOUSE = Service.STORAGE, Service.BIGQUERY
_BEFORE, _AFTER = When.BEFORE, When.AFTER
_CURRENT = "CURRENT"
_LEASE = _writes(_CURRENT, '"intent": {', '"jobs": []')
_CANDIDATE = _writes(r"attempts/[^/]+/candidate\.json")
_SWAP_ORDER = _writes(r"attempts/[^/]+/swap\.json")
_COMMIT = _writes(_CURRENT, '"intent": null')
_DATA_DELETED = _deletes("data/")

ALL = (
    Moment("notice.waiting", "the trigger's listing of landing is held", _BUCKET, _BEFORE, _lists_landing, idle=True),
    Moment(
        "notice.registering",
        "the upload of the arrival record is held",
        _BUCKET,
        _BEFORE,
        _writes(r"arrivals/.*\.json"),
    ),
    Moment(
        "notice.registered", "the answer to the arrival record is held", _BUCKET, _AFTER, _writes(r"arrivals/.*\.json")
    ),
    Moment("resolve.leasing", "the write of the lease into CURRENT is held", _BUCKET, _BEFORE, _LEASE),
    Moment("resolve.leased", "the answer to the lease is held", _BUCKET, _AFTER, _LEASE),
    Moment(
        "resolve.requesting",
        "the upload of request.json is held",
        _BUCKET,
        _BEFORE,
        _writes(r"attempts/[^/]+/request\.json"),
    ),
    Moment("dedup.examining", "the first read of a landed file is held", _BUCKET, _BEFORE, _reads_landing),
    Moment("dedup.writing", "the first upload of a data file is held", _BUCKET, _BEFORE, _writes(r"data/.*\.parquet")),
    Moment("dedup.handing_back", "the upload of candidate.json is held", _BUCKET, _BEFORE, _CANDIDATE),
    Moment("dedup.handed_back", "the answer to candidate.json is held", _BUCKET, _AFTER, _CANDIDATE),
    Moment(
        "load.beginning",
        "the write of `loading` into STAGING is held",
        _BUCKET,
        _BEFORE,
        _writes("STAGING", '"state": "loading"'),
    ),
    Moment("load.inserting", "the insertion of the load job is held", _WAREHOUSE, _BEFORE, _inserts("load")),
    Moment(
        "load.running",
        "the load job is kept in the queue, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("load"),
        queued="load",
    ),
    Moment(
        "load.deferred",
        "the load job is kept in the queue until its task is deferred; a look at the job is held",
        _WAREHOUSE,
        _BEFORE,
        _polls("load"),
        queued="load",
        deferred="load_staging",
    ),
    Moment(
        "load.ended",
        "the load job has ended, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("load"),
        done=True,
    ),
    Moment(
        "load.noting",
        "the write of `loaded` into STAGING is held",
        _BUCKET,
        _BEFORE,
        _writes("STAGING", '"state": "loaded"'),
    ),
    Moment("check.observing", "the query of staging's partitions is held", _WAREHOUSE, _BEFORE, _observes),
    Moment("check.judged", "the upload of swap.json is held", _BUCKET, _BEFORE, _SWAP_ORDER),
    Moment("check.handed_over", "the answer to swap.json is held", _BUCKET, _AFTER, _SWAP_ORDER),
    Moment("swap.inserting", "the insertion of the swap job is held", _WAREHOUSE, _BEFORE, _inserts("swap")),
    Moment(
        "swap.running",
        "the swap job is kept in the queue, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("swap"),
        queued="swap",
    ),
    Moment(
        "swap.deferred",
        "the swap job is kept in the queue until its task is deferred; a look at the job is held",
        _WAREHOUSE,
        _BEFORE,
        _polls("swap"),
        queued="swap",
        deferred="swap_target",
    ),
    Moment(
        "swap.committed",
        "the swap has committed, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("swap"),
        done=True,
    ),
    Moment("commit.manifest", "the upload of the manifest is held", _BUCKET, _BEFORE, _writes(r"manifests/\d+\.json")),
    Moment(
        "commit.ledger",
        "the manifest is there, the upload of the ledger record is held",
        _BUCKET,
        _BEFORE,
        _writes(r"ledger/.*\.json"),
    ),
    Moment("commit.current", "the ledger record is there, the write of CURRENT is held", _BUCKET, _BEFORE, _COMMIT),
    Moment("commit.committed", "the answer to the write of CURRENT is held", _BUCKET, _AFTER, _COMMIT),
    Moment("commit.status", "the load of the readers' status table is held", _WAREHOUSE, _BEFORE, _loads_status),
    Moment("prune.deleting", "the first deletion of an old data file is held", _BUCKET, _BEFORE, _DATA_DELETED),
    Moment("prune.deleted", "the answer to the first deletion is held", _BUCKET, _AFTER, _DATA_DELETED),
)
BY_NAME = {moment.name: moment for moment in ALL}
