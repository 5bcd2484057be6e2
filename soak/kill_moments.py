"""Defines the moments of a publish at which a process can be killed.

A moment is defined by one request to storage or BigQuery. A proxy (testkit/holding_proxy.py) holds the request, or the
response to it, until the process has been killed. A moment's name consists of a step of the publish, a dot, and what is
about to happen or has just happened. ALL has the moments in the order in which a publish reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from testkit.holding_proxy import HoldPhase
from testkit.proxied_request import ProxiedRequest, Service

RequestMatcher = Callable[[str, ProxiedRequest], bool]


@dataclass(frozen=True)
class KillMoment:
    """One moment of a publish.

    `description`: a text for the report. `service`, `matches`: the held request is the first one to this service for
    which `matches(feed, request)` is true. `when`: whether the request or its response is held.

    The other fields are further conditions of the kill. `queued_step`: the BigQuery job of this step is still in the
    queue. `after_job_end`: the BigQuery job that the held request inserted has ended. `deferred_task`: Airflow has
    deferred this task. `without_delivery`: no delivery waits when the request is held; one lands after that.
    """

    name: str
    description: str
    service: Service
    when: HoldPhase
    matches: RequestMatcher
    queued_step: str = ""
    after_job_end: bool = False
    deferred_task: str = ""
    without_delivery: bool = False

    @property
    def step(self) -> str:
        return self.name.split(".")[0]


def _writes(pattern: str, *contents: str) -> RequestMatcher:
    """Returns a matcher of uploads to the feed's folder in the state bucket.

    An upload matches if the object's name below that folder matches `pattern`, and its content has all of `contents`.
    """
    compiled = re.compile(pattern)

    def matches(feed: str, request: ProxiedRequest) -> bool:
        name = request.object_name
        if not request.is_upload or not name.startswith(f"{feed}/"):
            return False
        return bool(compiled.fullmatch(name.removeprefix(f"{feed}/"))) and all(
            content in request.text for content in contents
        )

    return matches


def _deletes(pattern: str) -> RequestMatcher:
    """Returns a matcher of deletions in the feed's folder of the state bucket.

    A deletion matches if the object's name below that folder begins with a match of `pattern`.
    """
    compiled = re.compile(pattern)

    def matches(feed: str, request: ProxiedRequest) -> bool:
        name = request.object_name.removeprefix(f"{feed}/")
        return request.method == "DELETE" and request.object_name.startswith(f"{feed}/") and bool(compiled.match(name))

    return matches


def _spark_reads_landing(feed: str, request: ProxiedRequest) -> bool:
    """Matches the Spark job's reads of landed files.

    The task `resolve_publish` reads such files too, but with Google's client for Python, whose requests have another
    path or the parameter `projection`.
    """
    is_by_task = "projection" in request.query or request.path.startswith("/download/")
    name = request.object_name
    is_landed = name.startswith(f"{feed}/snapshot_id=") and name.endswith(".parquet")
    return request.method == "GET" and is_landed and not is_by_task


def _lists_landing(feed: str, request: ProxiedRequest) -> bool:
    return request.path.endswith("/b/landing/o") and request.query.get("prefix") == f"{feed}/"


def _inserts(step: str) -> RequestMatcher:
    """Returns a matcher of insertions of a BigQuery job of this step."""

    def matches(feed: str, request: ProxiedRequest) -> bool:
        return request.inserts_job and bool(re.search(rf'"dedup_clone-{feed}-\d+-\w+-{step}-\d+"', request.text))

    return matches


def _polls(step: str) -> RequestMatcher:
    """Returns a matcher of polls for the state of a BigQuery job of this step."""

    def matches(feed: str, request: ProxiedRequest) -> bool:
        path = rf"/jobs/dedup_clone-{feed}-\d+-\w+-{step}-\d+$"
        return request.method == "GET" and bool(re.search(path, request.path))

    return matches


def _queries_partitions(feed: str, request: ProxiedRequest) -> bool:
    """Matches the query by which `check_staging` observes staging; of any feed, because one point runs at a time."""
    return request.inserts_job and "INFORMATION_SCHEMA" in request.text and "PARTITIONS" in request.text


def _loads_status(feed: str, request: ProxiedRequest) -> bool:
    return request.service is Service.BIGQUERY and request.method == "POST" and "dedup_clone_status" in request.text


_STORAGE, _BIGQUERY = Service.STORAGE, Service.BIGQUERY
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
        "notice.waiting",
        "the trigger's listing of landing is held",
        _STORAGE,
        _BEFORE,
        _lists_landing,
        without_delivery=True,
    ),
    KillMoment("notice.registering", "the upload of the arrival record is held", _STORAGE, _BEFORE, _ARRIVAL),
    KillMoment("notice.registered", "the answer to the arrival record is held", _STORAGE, _AFTER, _ARRIVAL),
    KillMoment("resolve.leasing", "the write of the lease into CURRENT is held", _STORAGE, _BEFORE, _LEASE),
    KillMoment("resolve.leased", "the answer to the lease is held", _STORAGE, _AFTER, _LEASE),
    KillMoment("resolve.requesting", "the upload of request.json is held", _STORAGE, _BEFORE, _REQUEST),
    KillMoment(
        "dedup.examining", "Spark's first read of a landed file is held", _STORAGE, _BEFORE, _spark_reads_landing
    ),
    KillMoment(
        "dedup.writing", "the first upload of a data file is held", _STORAGE, _BEFORE, _writes(r"data/.*\.parquet")
    ),
    KillMoment("dedup.writing_candidate", "the upload of candidate.json is held", _STORAGE, _BEFORE, _CANDIDATE),
    KillMoment("dedup.candidate_written", "the answer to candidate.json is held", _STORAGE, _AFTER, _CANDIDATE),
    KillMoment("load.beginning", "the write of `loading` into STAGING is held", _STORAGE, _BEFORE, _LOADING),
    KillMoment("load.inserting", "the insertion of the load job is held", _BIGQUERY, _BEFORE, _inserts("load")),
    KillMoment(
        "load.running",
        "the load job is kept in the queue, the answer to its insertion is held",
        _BIGQUERY,
        _AFTER,
        _inserts("load"),
        queued_step="load",
    ),
    KillMoment(
        "load.deferred",
        "the load job is kept in the queue until its task is deferred; a poll of the job is held",
        _BIGQUERY,
        _BEFORE,
        _polls("load"),
        queued_step="load",
        deferred_task="load_staging",
    ),
    KillMoment(
        "load.ended",
        "the load job has ended, the answer to its insertion is held",
        _BIGQUERY,
        _AFTER,
        _inserts("load"),
        after_job_end=True,
    ),
    KillMoment("load.recording", "the write of `loaded` into STAGING is held", _STORAGE, _BEFORE, _LOADED),
    KillMoment("check.observing", "the query of staging's partitions is held", _BIGQUERY, _BEFORE, _queries_partitions),
    KillMoment("check.writing_result", "the upload of swap.json is held", _STORAGE, _BEFORE, _SWAP_SPEC),
    KillMoment("check.result_written", "the answer to swap.json is held", _STORAGE, _AFTER, _SWAP_SPEC),
    KillMoment("swap.inserting", "the insertion of the swap job is held", _BIGQUERY, _BEFORE, _inserts("swap")),
    KillMoment(
        "swap.running",
        "the swap job is kept in the queue, the answer to its insertion is held",
        _BIGQUERY,
        _AFTER,
        _inserts("swap"),
        queued_step="swap",
    ),
    KillMoment(
        "swap.deferred",
        "the swap job is kept in the queue until its task is deferred; a poll of the job is held",
        _BIGQUERY,
        _BEFORE,
        _polls("swap"),
        queued_step="swap",
        deferred_task="swap_target",
    ),
    KillMoment(
        "swap.committed",
        "the swap has committed, the answer to its insertion is held",
        _BIGQUERY,
        _AFTER,
        _inserts("swap"),
        after_job_end=True,
    ),
    KillMoment(
        "commit.manifest", "the upload of the manifest is held", _STORAGE, _BEFORE, _writes(r"manifests/\d+\.json")
    ),
    KillMoment(
        "commit.ledger", "the manifest is there, the upload of the ledger record is held", _STORAGE, _BEFORE, _LEDGER
    ),
    KillMoment(
        "commit.current", "the ledger record is there, the write of CURRENT is held", _STORAGE, _BEFORE, _COMMIT
    ),
    KillMoment("commit.committed", "the answer to the write of CURRENT is held", _STORAGE, _AFTER, _COMMIT),
    KillMoment("commit.status", "the load of the readers' status table is held", _BIGQUERY, _BEFORE, _loads_status),
    KillMoment("prune.deleting", "the first deletion of an old data file is held", _STORAGE, _BEFORE, _DATA_DELETED),
    KillMoment("prune.deleted", "the answer to the first deletion is held", _STORAGE, _AFTER, _DATA_DELETED),
)
