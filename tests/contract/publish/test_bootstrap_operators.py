"""The bootstrap DAG's own tasks as Airflow runs them: dry run, refused forms, the order, the last look."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.orchestration import bootstrap_tasks
from dedup_clone.orchestration.bootstrap_form import bootstrap_params
from dedup_clone.orchestration.bootstrap_tasks import ShowExistingOperator, SwapExistingOperator
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.folders import find_folders
from dedup_clone.orchestration.order_xcom import BOOTSTRAP_TASK, RESULT, has_order, pull_order
from dedup_clone.publish.export import export_folder
from dedup_clone.settings.deployment import read_deployment
from tests.contract.publish import bootstrap_steps as steps
from tests.contract.publish.feed_world import REPOSITORY, FeedWorld, row

ROWS = [row(7, 1), row(8, 2)]


class Run:
    """One run: its tasks called as the task runner does, their results kept as XCom keeps them."""

    def __init__(self, world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bootstrap_tasks, "connect", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        self.setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.world = world
        self.results: dict[str, Any] = {}
        with DAG("feed_bootstrap", schedule=None) as self.dag:
            self.show_task = ShowExistingOperator(task_id=bootstrap_tasks.SHOW_TASK, setup=self.setup)
            self.show_task >> EmptyOperator(task_id=BOOTSTRAP_TASK)

    def context(self, **params: Any) -> Any:
        def push(*, key: str, value: Any) -> None:
            if key == RESULT:
                self.results[bootstrap_tasks.SHOW_TASK] = value

        ti = SimpleNamespace(xcom_push=push, xcom_pull=lambda task_ids: self.results.get(task_ids), map_index=-1)
        form = {name: param.value for name, param in bootstrap_params().items()} | params
        run = SimpleNamespace(dag_id="feed_bootstrap", run_id="by-hand")
        return {"ti": ti, "task_instance": ti, "dag": self.dag, "params": form, "dag_run": run}

    def show(self, **params: Any) -> dict[str, Any]:
        found = self.show_task.execute(self.context(**params))
        self.results[bootstrap_tasks.SHOW_TASK] = found
        return found

    def resolve(self, **params: Any) -> None:
        self.results[BOOTSTRAP_TASK] = bootstrap_tasks.take_bootstrap_lease(self.setup, self.context(**params))


@pytest.fixture
def by_hand(world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> Run:
    steps.create_table(world, world.feed.target)
    steps.insert(world, world.feed.target, ROWS)
    return Run(world, monkeypatch)


def test_a_dry_run_returns_what_would_happen_and_skips_all_that_follows(by_hand: Run) -> None:
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(8, 1)])
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.show(dry_run=True)
    assert list(skipped.value.tasks) == [BOOTSTRAP_TASK]
    shown = by_hand.results[bootstrap_tasks.SHOW_TASK]
    assert (shown["rows"], shown["surplus_rows"]) == (3, 1)
    assert "It would be refused" in shown["text"]
    assert by_hand.world.services.current.read().last_generation == 0


def test_what_the_form_does_not_allow_fails_at_once_and_nobody_is_asked(by_hand: Run) -> None:
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(8, 1)])
    with pytest.raises(AirflowFailException, match=r"rows whose key another row has.*duplicates"):
        by_hand.show()
    assert by_hand.show(duplicates="keep_latest")["refused"] == []
    with pytest.raises(AirflowFailException, match=r"\[warehouse.nowhere\] does not exist"):
        by_hand.show(source_table="nowhere")


def test_the_order_is_found_by_the_tasks_that_publish(by_hand: Run) -> None:
    assert not has_order(by_hand.context())
    by_hand.show()
    by_hand.resolve(reason="moves here")
    assert has_order(by_hand.context())
    order = pull_order(by_hand.context())
    assert (order.generation, order.parent) == (1, None)
    assert order.reason.endswith(": moves here")
    assert by_hand.world.services.current.read().intent


def test_the_export_task_leaves_a_request_and_the_last_task_deletes_the_files(by_hand: Run) -> None:
    by_hand.show()
    by_hand.resolve()
    bootstrap_tasks.export_table(by_hand.setup, by_hand.context())
    services, order = by_hand.world.services, pull_order(by_hand.context())
    assert services.manifests.request(order.attempt)
    assert len(list(services.store.objects(export_folder(services, order.attempt)))) == 1
    assert bootstrap_tasks.delete_export(by_hand.setup, by_hand.context()) == 1


def test_the_swap_is_not_made_once_the_table_was_changed_after_the_checks(by_hand: Run) -> None:
    by_hand.show()
    by_hand.resolve()
    order = pull_order(by_hand.context())
    swap = SwapExistingOperator(task_id="swap_target", setup=by_hand.setup, step="swap", configuration={})
    swap.prepare(by_hand.world.services, order)
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(9, 9)])
    with pytest.raises(BootstrapRefused, match="was changed since it was looked at"):
        swap.prepare(by_hand.world.services, order)
