"""The publish DAG's own operators as Airflow runs them: dry run, waiting for the lease, approval, refused forms."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
    ParamValidationError,
    TaskDeferred,
)

from dedup_clone.contract.records import from_plain
from dedup_clone.orchestration import approve_operator, resolve_operator
from dedup_clone.orchestration.approve_operator import EVIDENCE, ApproveAcceptedOperator, CheckStagingOperator
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.folders import find_folders
from dedup_clone.orchestration.publish_form import publish_params
from dedup_clone.orchestration.resolve_operator import ResolvePublishOperator
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import CheckSettings
from tests.contract.publish.feed_world import REPOSITORY, TODAY, FeedWorld, row


class Run:
    """One run of a small publish DAG: tasks that skip, wait and ask, called as the task runner does."""

    def __init__(self, world: FeedWorld, monkeypatch: pytest.MonkeyPatch, run_id: str) -> None:
        for module in (resolve_operator, approve_operator):
            monkeypatch.setattr(module, "connect", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.world, self.run_id = world, run_id
        self.results: dict[tuple[str, str], Any] = {}
        with DAG("feed_publish", schedule=None) as self.dag:
            self.resolve_task = ResolvePublishOperator(task_id="resolve_publish", setup=setup)
            self.check_task = CheckStagingOperator(task_id="check_staging", setup=setup, approval="approve_accepted")
            self.approve_task = ApproveAcceptedOperator(
                task_id="approve_accepted", setup=setup, checked_by="check_staging", subject="?"
            )
            self.resolve_task >> self.check_task >> self.approve_task

    def context(self, task: Any, **params: Any) -> Any:
        def push(*, key: str, value: Any) -> None:
            self.results[task.task_id, key] = value

        def pull(*, task_ids: str, key: str = "return_value") -> Any:
            return self.results[task_ids, key]

        ti = SimpleNamespace(xcom_push=push, xcom_pull=pull, map_index=-1)
        form = {name: param.value for name, param in publish_params().items()} | params
        run = SimpleNamespace(dag_id="feed_publish", run_id=self.run_id)
        return {"ti": ti, "task_instance": ti, "task": task, "dag": self.dag, "params": form, "dag_run": run}

    def resolve(self, **params: Any) -> dict[str, Any]:
        result = self.resolve_task.execute(self.context(self.resolve_task, **params))
        self.results["resolve_publish", "return_value"] = result
        return result

    def check(self) -> None:
        """From the order that was resolved to the end of the checks."""
        self.world.deduplicate(self.order)
        self.world.load(self.order)
        self.check_task.execute(self.context(self.check_task))

    def answer(self, option: str) -> None:
        self.approve_task.hitl_summary_extra = {}
        event = {
            "chosen_options": [option],
            "params_input": {},
            "responded_at": self.world.now(),
            "responded_by_user": None,
        }
        self.approve_task.execute_complete(self.context(self.approve_task), event)

    @property
    def order(self) -> PublishOrder:
        return from_plain(PublishOrder, self.results["resolve_publish", "return_value"], where="XCom")


@pytest.fixture
def by_hand(world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(world, monkeypatch, "by-hand")


def test_a_dry_run_returns_the_preview_and_skips_all_that_follows(by_hand: Run) -> None:
    name = by_hand.world.land(7, [row(7, 1)])
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.resolve(snapshot_id="7", dry_run=True)
    assert sorted(skipped.value.tasks) == ["approve_accepted", "check_staging"]
    preview = by_hand.results["resolve_publish", "return_value"]
    assert preview["changes_target"] is True
    assert f"dry run of delivery {name}" in preview["text"]
    assert by_hand.world.services.current.read().last_generation == 0


def test_a_replay_of_some_dates_reaches_the_order(by_hand: Run) -> None:
    by_hand.world.publish(by_hand.world.land(7, [row(7, 1)]))
    by_hand.resolve(snapshot_id="7", dates=[f"{TODAY}..{TODAY}"], reason="once more")
    assert by_hand.order.dates == (TODAY,)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"Name the snapshot to publish: parameter \[snapshot_id\]; there are: 7, 12\."),
        ({"snapshot_id": "9"}, r"Snapshot \[9\] is not registered.*registered snapshots: 7, 12\."),
        (
            {"snapshot_id": "7", "marker_generation": "1"},
            r"Delivery \[1\] of snapshot \[7\].*its deliveries: [0-9]+",
        ),
        ({"snapshot_id": "7", "dates": ["2020-13-01"]}, "names no date"),
        ({"snapshot_id": "7", "accepted_checks": ["new_share"], "reason": " "}, r"Say why \['new_share'\] may fail"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_what_is_not_there_is_refused_at_once_with_what_is(
    by_hand: Run, params: dict[str, Any], message: str, dry: bool
) -> None:
    for snapshot in (12, 7):
        by_hand.world.land(snapshot, [row(snapshot, 1)])
    with pytest.raises(AirflowFailException, match=message):
        by_hand.resolve(**params, dry_run=dry)
    assert by_hand.world.services.current.read().intent is None


def test_the_lease_of_a_run_at_work_is_waited_for_and_then_taken(by_hand: Run) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    order = world.resolve(world.land(8, [row(8, 1)]), run_id="other")
    world.running.add("other")
    with pytest.raises(TaskDeferred) as deferred:
        by_hand.resolve(snapshot_id="7")
    assert deferred.value.method_name == "ask_again"
    world.services.current.release(order.attempt)
    again = by_hand.resolve_task.ask_again(by_hand.context(by_hand.resolve_task, snapshot_id="7"), None)
    assert world.services.current.require_intent(again["attempt"]).run_id == "by-hand"


def test_a_delivery_that_is_in_already_skips_the_run(world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    snapshot_id, marker = name.split("-")
    automatic = Run(world, monkeypatch, f"publish__{snapshot_id}__{marker}")
    with pytest.raises(AirflowSkipException, match="part of generation 1 already"):
        automatic.resolve(snapshot_id=snapshot_id, marker_generation=marker)


def test_where_nothing_was_accepted_the_approval_is_skipped_and_the_swap_may_go_on(by_hand: Run) -> None:
    by_hand.world.land(7, [row(7, 1)])
    by_hand.resolve(snapshot_id="7", accepted_checks=["new_share"], reason="a first one")
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.check()
    assert skipped.value.tasks == ["approve_accepted"]
    assert by_hand.results["check_staging", "return_value"]["attempt"] == by_hand.order.attempt


@pytest.fixture
def asks(by_hand: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A replay whose accepted check failed, and that waits for the answer."""
    world = by_hand.world
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    world.feed = world.feed.model_copy(update={"checks": CheckSettings(max_changed_share=0.5)})
    world.land(8, [row(8, n, 99) for n in range(10)])
    by_hand.resolve(snapshot_id="8", accepted_checks=["changed_share"], reason="prices were reset")
    by_hand.check()
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: None)
    by_hand.approve_task.execute(by_hand.context(by_hand.approve_task))
    return by_hand


def test_the_evidence_is_shown_and_the_lease_gives_way_until_approved(asks: Run) -> None:
    assert "changed_share" in asks.results["check_staging", EVIDENCE]
    assert asks.world.services.current.require_intent(asks.order.attempt).waits_for_approval
    asks.answer("Approve")
    assert not asks.world.services.current.require_intent(asks.order.attempt).waits_for_approval


def test_a_rejection_is_final_however_many_tries_are_left(asks: Run) -> None:
    with pytest.raises(AirflowFailException, match="Reject"):
        asks.answer("Reject")


def test_a_question_that_nobody_answered_in_time_is_not_asked_again(asks: Run) -> None:
    event = {"error": "no answer within an hour", "error_type": "timeout"}
    with pytest.raises(AirflowFailException, match="no answer within an hour"):
        asks.approve_task.execute_complete(asks.context(asks.approve_task), event)


def test_an_approval_that_comes_too_late_fails_at_once_with_the_next_step(asks: Run) -> None:
    asks.world.running.add("by-hand")
    asks.world.publish(asks.world.land(9, [row(9, n) for n in range(10)]), run_id="automatic")
    with pytest.raises(AirflowFailException, match="Clear the run from its first task"):
        asks.answer("Approve")


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01...2026-01-02", "2026-01-01, 2026-01-02"])
def test_the_form_itself_refuses_what_is_no_date(text: str) -> None:
    dates = publish_params()["dates"]
    assert dates.resolve(["2026-01-01..2026-01-31", "2026-02-03"]) == ["2026-01-01..2026-01-31", "2026-02-03"]
    with pytest.raises(ParamValidationError):
        dates.resolve([text])
