"""Runs the publish DAG's own operators from resolve to approval on a test's feed, without a scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from dedup_clone.contract.records import from_plain
from dedup_clone.orchestration.publish import approval_operators, resolve_operator
from dedup_clone.orchestration.publish.approval_operators import ApproveAcceptedOperator, CheckStagingOperator
from dedup_clone.orchestration.publish.publish_form import publish_params
from dedup_clone.orchestration.publish.resolve_operator import ResolvePublishOperator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.watchdog import feed_check
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn
from tests.shared.task_api import TaskApi, dag_run


class Run:
    """One run of a DAG with three tasks of the publish DAG, which are called as Airflow's task runner calls them.

    `airflow`: answers their questions about runs; this run is active. `results`: XComs by task and key.
    """

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, run_id: str) -> None:
        self.airflow = TaskApi(monkeypatch)
        self.airflow.add_run("feed_publish", run_id)
        for module in (resolve_operator, approval_operators, feed_check):
            monkeypatch.setattr(module, "open_feed_services", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.world, self.run_id = world, run_id
        self.results: dict[tuple[str, str], Any] = {}
        with DAG("feed_publish", schedule=None) as self.dag:
            self.resolve_task = ResolvePublishOperator(task_id="resolve_publish", setup=setup)
            self.check_task = CheckStagingOperator(
                task_id="check_staging", setup=setup, approve_task="approve_accepted"
            )
            self.approve_task = ApproveAcceptedOperator(
                task_id="approve_accepted", setup=setup, check_task="check_staging", subject="?"
            )
            self.resolve_task >> self.check_task >> self.approve_task

    def context(self, task: Any, **params: Any) -> Any:
        """The context of a task instance. `params`: the fields of the form that differ from their defaults."""

        def push(*, key: str, value: Any) -> None:
            self.results[task.task_id, key] = value

        def pull(*, task_ids: str, key: str = "return_value") -> Any:
            return self.results[task_ids, key]

        ti = SimpleNamespace(xcom_push=push, xcom_pull=pull, map_index=-1)
        form = {name: param.value for name, param in publish_params(self.world.feed).items()} | params
        run = dag_run("feed_publish", self.run_id)
        return {"ti": ti, "task_instance": ti, "task": task, "dag": self.dag, "params": form, "dag_run": run}

    def resolve(self, **params: Any) -> dict[str, Any]:
        result = self.resolve_task.execute(self.context(self.resolve_task, **params))
        self.results["resolve_publish", "return_value"] = result
        return result

    def check(self) -> None:
        """Run the steps after resolve up to and including the checks before the swap."""
        self.world.deduplicate(self.spec)
        self.world.load(self.spec)
        self.check_task.execute(self.context(self.check_task))

    def answer(self, option: str) -> None:
        """Answer the approval task with this option, as a person does."""
        self.approve_task.hitl_summary_extra = {}
        event = {
            "chosen_options": [option],
            "params_input": {},
            "responded_at": self.world.now(),
            "responded_by_user": None,
        }
        self.approve_task.execute_complete(self.context(self.approve_task), event)

    @property
    def spec(self) -> PublishSpec:
        return from_plain(PublishSpec, self.results["resolve_publish", "return_value"], where="XCom")
