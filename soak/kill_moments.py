"""Defines the moments of a publish at which a process is killed. At each of them a proxy holds one request.

A moment's name is the step of the publish, a dot, and what is about to happen or has just happened. Moments are in the
order of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from testkit.holding_proxy import HoldPhase
from testkit.proxied_request import ProxiedRequest, Service

Matches = Callable[[str, ProxiedRequest], bool]


@dataclass(frozen=True)
class KillMoment:
    """One moment, and how to recognize its request: `matches(feed, request)`.

    `how` describes it for the report. `when`: whether the request or its answer is held.
    `queued`: the step whose BigQuery job stays in the queue until after the kill.
    `done`: the kill waits until the BigQuery job that the held request inserted has ended.
    `deferred`: the task that Airflow must have deferred before the request is held.
    `idle`: the request is sent while no delivery waits.
    """

    name: str
    how: str
    service: Service
    when: HoldPhase
    matches: Matches
    queued: str = ""
    done: bool = False
    deferred: str = ""
    idle: bool = False

    @property
    def step(self) -> str:
        return self.name.split(".")[0]


def _writes(pattern: str, *contents: str) -> Matches:
    """An upload to the feed's state whose object name matches `pattern` and whose content has all of these texts."""
    compiled = re.compile(pattern)

    def matches(feed: str, request: ProxiedRequest) -> bool:
        name = request.object_name
        if not request.is_upload or not name.startswith(f"{feed}/"):
            return False
        return bool(compiled.fullmatch(name.removeprefix(f"{feed}/"))) and all(
            content in request.text for content in contents
        )

    return matches


def _deletes(pattern: str) -> Matches:
    compiled = re.compile(pattern)

    def matches(feed: str, request: ProxiedRequest) -> bool:
        name = request.object_name.removeprefix(f"{feed}/")
        return request.method == "DELETE" and request.object_name.startswith(f"{feed}/") and bool(compiled.match(name))

    return matches


def _reads_landing(feed: str, request: ProxiedRequest) -> bool:
    name = request.object_name
    return request.method == "GET" and name.startswith(f"{feed}/snapshot_id=") and name.endswith(".parquet")


def _lists_landing(feed: str, request: ProxiedRequest) -> bool:
    return request.path.endswith("/b/landing/o") and request.query.get("prefix") == f"{feed}/"


def _inserts(step: str) -> Matches:
    def matches(feed: str, request: ProxiedRequest) -> bool:
        return request.inserts_job and bool(re.search(rf'"dedup_clone-{feed}-\d+-\w+-{step}-\d+"', request.text))

    return matches


def _polls(step: str) -> Matches:
    def matches(feed: str, request: ProxiedRequest) -> bool:
        path = rf"/jobs/dedup_clone-{feed}-\d+-\w+-{step}-\d+$"
        return request.method == "GET" and bool(re.search(path, request.path))

    return matches


def _observes(feed: str, request: ProxiedRequest) -> bool:
    return request.inserts_job and "INFORMATION_SCHEMA" in request.text and "PARTITIONS" in request.text


def _loads_status(feed: str, request: ProxiedRequest) -> bool:
    return request.service is Service.BIGQUERY and request.method == "POST" and "dedup_clone_status" in request.text


_BUCKET, _WAREHOUSE = Service.STORAGE, Service.BIGQUERY
_BEFORE, _AFTER = HoldPhase.BEFORE, HoldPhase.AFTER
_CURRENT = "CURRENT"
_ARRIVAL = _writes(r"arrivals/.*\.json")
_LEASE = _writes(_CURRENT, '"intent": {', '"jobs": []')
_REQUEST = _writes(r"attempts/[^/]+/request\.json")
_CANDIDATE = _writes(r"attempts/[^/]+/candidate\.json")
_LOADING = _writes("STAGING", '"state": "loading"')
_LOADED = _writes("STAGING", '"state": "loaded"')
_SWAP_SPEC = _writes(r"attempts/[^/]+/swap\.json")
_LEDGER = _writes(r"ledger/.*\.json")
_COMMIT = _writes(_CURRENT, '"intent": null')
_DATA_DELETED = _deletes("data/")

ALL = (
    KillMoment(
        "notice.waiting", "the trigger's listing of landing is held", _BUCKET, _BEFORE, _lists_landing, idle=True
    ),
    KillMoment("notice.registering", "the upload of the arrival record is held", _BUCKET, _BEFORE, _ARRIVAL),
    KillMoment("notice.registered", "the answer to the arrival record is held", _BUCKET, _AFTER, _ARRIVAL),
    KillMoment("resolve.leasing", "the write of the lease into CURRENT is held", _BUCKET, _BEFORE, _LEASE),
    KillMoment("resolve.leased", "the answer to the lease is held", _BUCKET, _AFTER, _LEASE),
    KillMoment("resolve.requesting", "the upload of request.json is held", _BUCKET, _BEFORE, _REQUEST),
    KillMoment("dedup.examining", "the first read of a landed file is held", _BUCKET, _BEFORE, _reads_landing),
    KillMoment(
        "dedup.writing", "the first upload of a data file is held", _BUCKET, _BEFORE, _writes(r"data/.*\.parquet")
    ),
    KillMoment("dedup.handing_back", "the upload of candidate.json is held", _BUCKET, _BEFORE, _CANDIDATE),
    KillMoment("dedup.handed_back", "the answer to candidate.json is held", _BUCKET, _AFTER, _CANDIDATE),
    KillMoment("load.beginning", "the write of `loading` into STAGING is held", _BUCKET, _BEFORE, _LOADING),
    KillMoment("load.inserting", "the insertion of the load job is held", _WAREHOUSE, _BEFORE, _inserts("load")),
    KillMoment(
        "load.running",
        "the load job is kept in the queue, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("load"),
        queued="load",
    ),
    KillMoment(
        "load.deferred",
        "the load job is kept in the queue until its task is deferred; a poll of the job is held",
        _WAREHOUSE,
        _BEFORE,
        _polls("load"),
        queued="load",
        deferred="load_staging",
    ),
    KillMoment(
        "load.ended",
        "the load job has ended, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("load"),
        done=True,
    ),
    KillMoment("load.noting", "the write of `loaded` into STAGING is held", _BUCKET, _BEFORE, _LOADED),
    KillMoment("check.observing", "the query of staging's partitions is held", _WAREHOUSE, _BEFORE, _observes),
    KillMoment("check.judged", "the upload of swap.json is held", _BUCKET, _BEFORE, _SWAP_SPEC),
    KillMoment("check.handed_over", "the answer to swap.json is held", _BUCKET, _AFTER, _SWAP_SPEC),
    KillMoment("swap.inserting", "the insertion of the swap job is held", _WAREHOUSE, _BEFORE, _inserts("swap")),
    KillMoment(
        "swap.running",
        "the swap job is kept in the queue, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("swap"),
        queued="swap",
    ),
    KillMoment(
        "swap.deferred",
        "the swap job is kept in the queue until its task is deferred; a poll of the job is held",
        _WAREHOUSE,
        _BEFORE,
        _polls("swap"),
        queued="swap",
        deferred="swap_target",
    ),
    KillMoment(
        "swap.committed",
        "the swap has committed, the answer to its insertion is held",
        _WAREHOUSE,
        _AFTER,
        _inserts("swap"),
        done=True,
    ),
    KillMoment(
        "commit.manifest", "the upload of the manifest is held", _BUCKET, _BEFORE, _writes(r"manifests/\d+\.json")
    ),
    KillMoment(
        "commit.ledger", "the manifest is there, the upload of the ledger record is held", _BUCKET, _BEFORE, _LEDGER
    ),
    KillMoment("commit.current", "the ledger record is there, the write of CURRENT is held", _BUCKET, _BEFORE, _COMMIT),
    KillMoment("commit.committed", "the answer to the write of CURRENT is held", _BUCKET, _AFTER, _COMMIT),
    KillMoment("commit.status", "the load of the readers' status table is held", _WAREHOUSE, _BEFORE, _loads_status),
    KillMoment("prune.deleting", "the first deletion of an old data file is held", _BUCKET, _BEFORE, _DATA_DELETED),
    KillMoment("prune.deleted", "the answer to the first deletion is held", _BUCKET, _AFTER, _DATA_DELETED),
)
MOMENT_BY_NAME = {moment.name: moment for moment in ALL}
