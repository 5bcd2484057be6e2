"""Serves the page with generated feeds and without a login: for tests, and to try it in a browser:
`PYTHONPATH=plugins:. .venv/bin/python -m tests.page.serving 8099`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import uvicorn

from dedup_clone.page.application import Permissions, create_application
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.state.store import StoredText
from devstack.stack.ports import any_free_port
from testkit.waiting import wait_for
from tests.shared import page_indexes
from tests.shared.page_store import MemoryStore, at_work


def let_in() -> None:
    """A login check that admits everybody."""


def application(store: MemoryStore, *, may_trigger: bool = True, now: Any = None, **options: Any) -> Any:
    def permissions() -> Permissions:
        return Permissions(lambda dag_id: True, lambda dag_id: may_trigger)

    return create_application(
        FeedReader(lambda: store, **options), let_in, permissions, now or (lambda: datetime.now(UTC))
    )


def task_instance(dag_id: str, run_id: str, task_id: str, state: str, since: datetime) -> dict[str, Any]:
    """A task as Airflow describes it; validated by a test against its OpenAPI description."""
    unknown = (
        "logical_date",
        "end_date",
        "duration",
        "hostname",
        "unixname",
        "queue",
        "scheduled_when",
        "pid",
        "executor",
    )
    return {
        "dag_id": dag_id,
        "dag_run_id": run_id,
        "task_id": task_id,
        "state": state,
        **dict.fromkeys((*unknown, "note", "rendered_map_index", "trigger", "triggerer_job", "dag_version")),
        **dict.fromkeys(("run_after", "start_date", "queued_when"), since.isoformat()),
        **dict.fromkeys(("task_display_name", "operator", "operator_name"), task_id),
        **{"map_index": -1, "try_number": 1, "max_tries": 0, "pool_slots": 1, "priority_weight": 1},
        **{"id": "019a0000-0000-7000-8000-000000000000", "pool": "default_pool", "executor_config": "{}"},
        "dag_display_name": dag_id,
    }


def approval(now: datetime, dag_id: str = "store_visits_rollback", task_id: str = "approve_rollback") -> dict[str, Any]:
    """Airflow's answer on a task that waits for an approval; validated by a test against its OpenAPI description."""
    since = now - timedelta(minutes=9)
    return {
        "options": ["Approve", "Reject"],
        "subject": "Roll store_visits back to generation 119?",
        "body": "Reason given: <b>prices</b> (asked by vera)",
        "created_at": since.isoformat(),
        "assigned_users": [],
        "task_instance": task_instance(dag_id, "manual__1", task_id, "awaiting_input", since),
    }


def site(now: datetime) -> Any:
    """All that the page can look like: fresh, late and empty; to a viewer; unchecked and unknown; before any feed."""
    from fastapi import FastAPI

    shown = FastAPI()

    @shown.get("/api/v2/dags/~/dagRuns/~/hitlDetails")
    def questions() -> dict[str, Any]:
        asked = approval(now)
        task = asked["task_instance"]
        answered = {**asked, "task_instance": {**task, "state": "success"}}
        of_another_feed = {**asked, "task_instance": {**task, "dag_id": "store_visits_eu_rollback"}}
        return {"hitl_details": [answered, asked, of_another_feed], "total_entries": 3}

    @shown.get("/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
    def tasks(dag_id: str, run_id: str) -> dict[str, Any]:
        since = now - timedelta(minutes=7)
        found = [
            task_instance(dag_id, run_id, *one, since) for one in (("a", "scheduled"), ("dedup_snapshot", "running"))
        ]
        return {"task_instances": found, "total_entries": 2}

    full = MemoryStore(
        page_indexes.fresh(now), page_indexes.late(now), page_indexes.empty(now), verdicts=page_indexes.verdicts(now)
    )
    shown.mount("/dedup-clone", application(full))
    shown.mount("/viewer", application(full, may_trigger=False))
    shown.mount("/first", application(MemoryStore(page_indexes.make_index(1, 1, now=now))))
    old = page_indexes.verdicts(now - timedelta(hours=4))[1:2]
    shown.mount("/unchecked", application(MemoryStore(page_indexes.late(now), verdicts=old)))
    shown.mount("/nothing", application(MemoryStore()))
    shown.mount("/at-work", application(at_work(now)))
    broken = MemoryStore(verdicts=(page_indexes.invalid_feed_file("sales", now),))
    broken.texts["sales/incidents/feed_file_invalid.json"] = StoredText("{}", 1)
    shown.mount("/broken", application(broken))
    return shown


@contextmanager
def serve(shown: Any) -> Iterator[str]:
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
