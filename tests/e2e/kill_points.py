"""The points of the kill matrix: at which moment of a publish which process is killed.

A moment is one request to storage or BigQuery. A proxy (testkit/holding_proxy.py) holds the request, or the answer to
it, until the process has been killed. A moment's name is a step of the publish, a dot, and what is about to happen or
has just happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from testkit.holding_proxy import HoldPhase, ProxiedRequest, Service

Matcher = Callable[[str, ProxiedRequest], bool]
BEFORE, AFTER = HoldPhase.BEFORE, HoldPhase.AFTER


@dataclass(frozen=True)
class Moment:
    """The first request to `service` for which `matches(feed, request)` is true, or the answer to it.

    Further conditions of the kill: the BigQuery job of `queued_step` is still in the queue; the job that the held
    request inserted has ended (`after_job_end`); Airflow has deferred `deferred_task`; no delivery waits when the
    request is held, and one lands after that (`without_delivery`).
    """

    service: Service
    when: HoldPhase
    matches: Matcher
    queued_step: str = ""
    after_job_end: bool = False
    deferred_task: str = ""
    without_delivery: bool = False


def writes(pattern: str, *contents: str) -> Matcher:
    """Uploads whose name below the feed's folder of the state bucket matches, and whose content has all of these."""
    return lambda feed, request: (
        request.is_upload
        and bool(re.fullmatch(f"{feed}/{pattern}", request.object_name))
        and all(content in request.text for content in contents)
    )


def deletes(pattern: str) -> Matcher:
    return lambda feed, request: request.method == "DELETE" and bool(re.match(f"{feed}/{pattern}", request.object_name))


def inserts(step: str) -> Matcher:
    """Insertions of a BigQuery job of this step."""
    return lambda feed, request: (
        request.inserts_job and bool(re.search(rf'"dedup_clone-{feed}-\d+-\w+-{step}-\d+"', request.text))
    )


def polls(step: str) -> Matcher:
    path = rf"/jobs/dedup_clone-FEED-\d+-\w+-{step}-\d+$"
    return lambda feed, request: request.method == "GET" and bool(re.search(path.replace("FEED", feed), request.path))


def lists_landing(feed: str, request: ProxiedRequest) -> bool:
    return request.path.endswith("/b/landing/o") and request.query.get("prefix") == f"{feed}/"


def spark_reads_landing(feed: str, request: ProxiedRequest) -> bool:
    """A task reads such files, too, but with Google's client, with another path or the parameter `projection`."""
    is_by_task = "projection" in request.query or request.path.startswith("/download/")
    is_landed = bool(re.fullmatch(rf"{feed}/snapshot_id=.*\.parquet", request.object_name))
    return request.method == "GET" and is_landed and not is_by_task


def queries_partitions(feed: str, request: ProxiedRequest) -> bool:
    """The query by which staging is observed; of any feed, because one point runs at a time."""
    return request.method == "POST" and "INFORMATION_SCHEMA" in request.text and "PARTITIONS" in request.text


STORAGE, BIGQUERY = Service.STORAGE, Service.BIGQUERY
ARRIVAL = writes(r"arrivals/.*\.json")
LEASE = writes("CURRENT", '"intent": {', '"jobs": []')
CANDIDATE = writes(r"attempts/[^/]+/candidate\.json")
SWAP = writes(r"attempts/[^/]+/swap\.json")
COMMIT = writes("CURRENT", '"intent": null')

# In the order in which a publish reaches them.
MOMENTS = {
    "notice.waiting": Moment(STORAGE, BEFORE, lists_landing, without_delivery=True),
    "notice.registering": Moment(STORAGE, BEFORE, ARRIVAL),
    "notice.registered": Moment(STORAGE, AFTER, ARRIVAL),
    "resolve.leasing": Moment(STORAGE, BEFORE, LEASE),
    "resolve.leased": Moment(STORAGE, AFTER, LEASE),
    "resolve.writing_attempt": Moment(STORAGE, BEFORE, writes(r"attempts/[^/]+/attempt\.json")),
    "dedup.examining": Moment(STORAGE, BEFORE, spark_reads_landing),
    "dedup.writing": Moment(STORAGE, BEFORE, writes(r"data/.*\.parquet")),
    "dedup.writing_candidate": Moment(STORAGE, BEFORE, CANDIDATE),
    "dedup.candidate_written": Moment(STORAGE, AFTER, CANDIDATE),
    "load.beginning": Moment(STORAGE, BEFORE, writes("CURRENT", '"holds": null', '-load-1"')),
    "load.inserting": Moment(BIGQUERY, BEFORE, inserts("load")),
    "load.running": Moment(BIGQUERY, AFTER, inserts("load"), queued_step="load"),
    "load.deferred": Moment(BIGQUERY, BEFORE, polls("load"), queued_step="load", deferred_task="load_staging"),
    "load.ended": Moment(BIGQUERY, AFTER, inserts("load"), after_job_end=True),
    "load.recording": Moment(STORAGE, BEFORE, writes("CURRENT", '-load-1"', '"holds": "')),
    "check.observing": Moment(BIGQUERY, BEFORE, queries_partitions),
    "check.writing_result": Moment(STORAGE, BEFORE, SWAP),
    "check.result_written": Moment(STORAGE, AFTER, SWAP),
    "swap.inserting": Moment(BIGQUERY, BEFORE, inserts("swap")),
    "swap.running": Moment(BIGQUERY, AFTER, inserts("swap"), queued_step="swap"),
    "swap.deferred": Moment(BIGQUERY, BEFORE, polls("swap"), queued_step="swap", deferred_task="swap_target"),
    "swap.committed": Moment(BIGQUERY, AFTER, inserts("swap"), after_job_end=True),
    "commit.manifest": Moment(STORAGE, BEFORE, writes(r"manifests/\d+\.json")),
    "commit.ledger": Moment(STORAGE, BEFORE, writes(r"ledger/.*\.json")),
    "commit.current": Moment(STORAGE, BEFORE, COMMIT),
    "commit.committed": Moment(STORAGE, AFTER, COMMIT),
    "commit.ledger_row": Moment(BIGQUERY, BEFORE, inserts("ledger")),
    "prune.deleting": Moment(STORAGE, BEFORE, deletes("data/")),
    "prune.deleted": Moment(STORAGE, AFTER, deletes("data/")),
}

# The moments at which each process is killed. `task` runs the code of an Airflow task, and `executor_worker` is its
# parent. `spark_driver` and `spark_worker` run Python, and `spark_daemon` is the parent of the latter. `trigger_runner`
# is the child of the triggerer that runs the triggers. The others are parts of the stack.
VICTIMS = {
    "task": " ".join(name for name, m in MOMENTS.items() if not m.without_delivery and not m.deferred_task),
    "executor_worker": "resolve.leased dedup.writing_candidate load.inserting swap.committed",
    "spark_driver": "dedup.examining dedup.writing_candidate dedup.candidate_written",
    "spark_jvm": "dedup.examining dedup.writing dedup.writing_candidate",
    "spark_worker": "dedup.writing",
    "spark_daemon": "dedup.writing",
    "scheduler": "notice.registered resolve.leased dedup.writing load.running check.writing_result swap.committed"
    " commit.ledger prune.deleting",
    "triggerer": "notice.waiting resolve.leased dedup.writing load.deferred check.writing_result swap.deferred"
    " commit.ledger prune.deleting",
    "trigger_runner": "notice.waiting swap.deferred",
    "api_server": "resolve.leased swap.committed",
    "dag_processor": "dedup.writing_candidate",
    "bigquery": "notice.registering resolve.leased dedup.writing_candidate load.running load.ended check.observing"
    " swap.running swap.committed commit.ledger_row prune.deleting",
    "fake_gcs": "notice.registering resolve.leasing resolve.leased dedup.writing dedup.candidate_written load.running"
    " load.recording check.writing_result swap.committed commit.ledger commit.current commit.committed prune.deleting",
    "database": "resolve.leased dedup.writing load.deferred swap.committed commit.ledger",
}
# In the order of the moments.
POINTS = [(name, victim) for name in MOMENTS for victim, names in VICTIMS.items() if name in names.split()]
