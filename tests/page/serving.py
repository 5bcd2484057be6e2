"""Serves the page with generated feeds, without a login, beside a simulated REST API of Airflow.

To try it in a browser: `PYTHONPATH=plugins:. .venv/bin/python -m tests.page.serving 8099`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException

from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.page.application import Permissions, create_application
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.state.store import StoredText
from devstack.stack.ports import any_free_port
from testkit.browser import Page
from testkit.waiting import wait_for
from tests.shared import page_feeds
from tests.shared.page_store import MemoryStore, at_work

EVIL = "<img src=x onerror=\"document.title='stolen'\"><b>bold</b>"
RESULT = "{}: target would change <b>\nof a **dry run**\n\n| | |\n| --- | --- |\n| live generation | 7 \\| 8 |"
AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
FAULTS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.flatMap(
    (v) => v.nodes.map((n) => `${v.impact}: ${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`)))"""
DOWN = "down"  # among the states of a task: Airflow does not answer


def faults(page: Page) -> list[str]:
    """All violations of rules of accessibility, each with its element and how to fix it."""
    page.value(AXE.read_text() + "; true")
    found: list[str] = page.value(FAULTS)
    return found


def let_in() -> None:
    """A login check that admits everybody."""


def application(store: MemoryStore, *, may_trigger: bool = True, now: Any = None) -> Any:
    def permissions() -> Permissions:
        return Permissions(lambda dag_id: True, lambda dag_id: may_trigger)

    return create_application(FeedReader(lambda: store), let_in, permissions, now or (lambda: datetime.now(UTC)))


def task_instance(dag_id: str, run_id: str, task_id: str, state: str, since: datetime) -> dict[str, Any]:
    """A task as Airflow describes it; validated by a test against its OpenAPI description."""
    times = ("run_after", "start_date", "queued_when")
    absent = ["logical_date", "end_date", "duration", "hostname", "unixname", "queue", "scheduled_when", "pid", "note"]
    absent += ["executor", "rendered_map_index", "trigger", "triggerer_job", "dag_version"]
    return {
        "dag_id": dag_id,
        "dag_display_name": dag_id,
        "dag_run_id": run_id,
        "task_id": task_id,
        "state": state,
        **dict.fromkeys(absent),
        **dict.fromkeys(times, since.isoformat()),
        **dict.fromkeys(("task_display_name", "operator", "operator_name"), task_id),
        **{"map_index": -1, "try_number": 1, "max_tries": 0, "pool_slots": 1, "priority_weight": 1},
        **{"id": "019a0000-0000-7000-8000-000000000000", "pool": "default_pool", "executor_config": "{}"},
    }


def approval(now: datetime, dag_id: str = "store_visits_rollback", state: str = "awaiting_input") -> dict[str, Any]:
    """A task that waits for an approval, as Airflow describes it."""
    since = now - timedelta(minutes=9)
    return {
        "options": ["Approve", "Reject"],
        "subject": "store_visits: roll back to generation 119?",
        "body": "Reason given: <b>prices</b> (asked by vera)",
        "created_at": since.isoformat(),
        "assigned_users": [],
        "task_instance": task_instance(dag_id, "manual__1", "approve_rollback", state, since),
    }


@dataclass
class Api:
    """Airflow's REST API as far as the page asks it. `states`: of a run's first task, one answer after the other.

    `tasks`: those of a run that has ended, or that are at work; empty while a started run is running. `asked`: the
    started runs. Each test has its own `run`: late requests by the page of an earlier one have no effect.
    """

    questions: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    run: int = 0
    address: str = ""

    def routes(self) -> FastAPI:
        api = FastAPI()

        @api.post("/dags/{dag_id}/dagRuns")
        def start(dag_id: str, body: dict[str, Any]) -> dict[str, str]:
            self.asked.append({"dag_id": dag_id, **body["conf"]})
            return {"dag_run_id": f"manual__{self.run}"}

        @api.get("/dags/~/dagRuns/~/hitlDetails")
        def approvals() -> dict[str, Any]:
            return {"hitl_details": self.questions, "total_entries": len(self.questions)}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}")
        def run(dag_id: str, run_id: str) -> dict[str, Any]:
            return {"state": "success" if self.tasks or run_id != f"manual__{self.run}" else "running"}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        def tasks(dag_id: str, run_id: str) -> dict[str, Any]:
            return {"task_instances": self.tasks, "total_entries": len(self.tasks)}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        def state(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            state = self.states.pop(0) if run_id == f"manual__{self.run}" else "skipped"
            if state == DOWN:
                raise HTTPException(503)
            return {"state": state, "try_number": 2}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/2")
        def log(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            return {"content": [{"event": "begins"}, *self.log]}

        @api.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value")
        def result(dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
            return {"value": {"text": RESULT.format(task_id)}}

        return api


def busy_api(now: datetime) -> Api:
    """An approval is open, another is answered, and one is of another feed. A run works at its second task."""
    questions = [approval(now, state="success"), approval(now), approval(now, "store_visits_eu_rollback")]
    states = (("a", "scheduled"), ("dedup_snapshot", "running"))
    since = now - timedelta(minutes=7)
    return Api(questions, [task_instance("product_attributes_publish", "publish__1", *one, since) for one in states])


def before_the_first_delivery(now: datetime) -> MemoryStore:
    """A feed whose watch DAG is paused, and that could not be checked once."""
    paused = Incident(
        IncidentKind.STOPPED,
        Severity.ALERT,
        now,
        "paused",
        "unpause it.",
        "watch_paused",
        "no table yet",
        "sales_watch",
    )
    unchecked = replace(paused, kind=IncidentKind.REPORTING, subject="not_checked", dag_id="freshness_watchdog")
    checked = page_feeds.verdict("sales", FreshnessStatus.STOPPED, now, incidents=(paused, unchecked))
    return MemoryStore(verdicts=(checked,))


def never_checked(now: datetime) -> MemoryStore:
    """A feed of which no check has succeeded."""
    unchecked = Incident(
        IncidentKind.REPORTING, Severity.ALERT, now, "no access", "grant it.", "not_checked", "unknown"
    )
    found = page_feeds.verdict(
        "sales",
        FreshnessStatus.UNKNOWN,
        now,
        readers_see="what was published last, if anything was: no check has succeeded yet",
        incidents=(unchecked,),
    )
    return MemoryStore(verdicts=(found,))


def vanished(now: datetime) -> Any:
    """Lists a feed that does not exist. Each request is an hour after the one before."""
    few, hours = page_feeds.make_feed(12, 1, now=now), count()
    verdicts = (page_feeds.verdict(feed, now=now + timedelta(days=9)) for feed in (few.verdict.feed, "vanished"))
    store = MemoryStore(few, verdicts=tuple(verdicts))
    store.texts["_freshness/another.json"] = store.texts.pop("_freshness/vanished.json")
    return application(store, now=lambda: now + timedelta(hours=next(hours)))


def many(now: datetime) -> MemoryStore:
    few = page_feeds.make_feed(12, 1, now=now)
    feeds = [f"feed_{number:03}" for number in range(199)]
    store = MemoryStore(few, verdicts=tuple(page_feeds.verdict(f, now=now) for f in (*feeds, few.verdict.feed)))
    store.texts |= {f"{feed}/CURRENT": StoredText("{}", 1) for feed in feeds}
    return store


def replayed(now: datetime) -> MemoryStore:
    """The newest publish is a replay of an old snapshot."""
    whole = page_feeds.fresh(now)
    attempts = whole.attempts
    again = {"deliveries": attempts[19].deliveries, "snapshot_id": attempts[19].snapshot_id}
    again |= {"replay": True, "lag_s": None, "dropped_rows": 1234, "reason": "prices were wrong"}
    replay = replace(attempts[-1], **again)
    return MemoryStore(replace(whole, attempts=(*attempts[:-1], replay)))


def beginning(now: datetime) -> MemoryStore:
    """The first of twelve publishes has all rows, and a lag of 36 hours."""
    few = page_feeds.make_feed(12, 1, now=now)
    first, *others = few.attempts
    first = replace(first, new_rows=first.rows, lag_s=36 * 3600.0)
    return MemoryStore(replace(few, attempts=(first, *others)))


def evil(now: datetime) -> MemoryStore:
    late = page_feeds.late(now)
    deliveries = tuple(replace(d, refusal=EVIL) if d.refusal else d for d in late.deliveries)
    return MemoryStore(page_feeds.with_feed_file(replace(late, deliveries=deliveries), description=EVIL))


def broken(now: datetime) -> MemoryStore:
    store = MemoryStore(verdicts=(page_feeds.invalid_feed_file("sales", now),))
    store.texts["sales/incidents.json"] = StoredText("{}", 1)
    return store


def site(now: datetime, api: Api | None = None, **more: MemoryStore) -> FastAPI:
    """The page in all its states, each at a path. `more`: other ones."""
    shown = FastAPI()
    shown.mount("/api/v2", (api or busy_api(now)).routes())
    full = MemoryStore(
        page_feeds.fresh(now), page_feeds.late(now), page_feeds.empty(now), verdicts=page_feeds.verdicts(now)
    )
    old = page_feeds.verdicts(now - timedelta(hours=4))[1:2]
    stores = {
        "dedup-clone": full,
        "first": MemoryStore(page_feeds.make_feed(1, 1, now=now)),
        "never-checked": never_checked(now),
        "unchecked": MemoryStore(page_feeds.late(now), verdicts=old),
        "nothing": MemoryStore(),
        "at-work": at_work(now),
        "broken": broken(now),
        "before-the-first": before_the_first_delivery(now),
        "many": many(now),
        "replayed": replayed(now),
        "beginning": beginning(now),
        "evil": evil(now),
    }
    for path, store in (stores | more).items():
        shown.mount(f"/{path}", application(store))
    shown.mount("/viewer", application(full, may_trigger=False))
    shown.mount("/vanished", vanished(now))
    return shown


@contextmanager
def serve(shown: FastAPI) -> Iterator[str]:
    """Serve an application on a free port; yields its address."""
    server = uvicorn.Server(uvicorn.Config(shown, host="127.0.0.1", port=any_free_port(), log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, "the page is served", poll_interval_s=0.05)
    yield f"http://127.0.0.1:{server.config.port}"
    server.should_exit = True
    thread.join(timeout=10)


if __name__ == "__main__":
    uvicorn.run(site(datetime.now(UTC)), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
