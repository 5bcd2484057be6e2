"""The bootstrap DAG's own tasks as Airflow runs them: dry run, refused requests, the spec, the swap's last check."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.orchestration.bootstrap import bootstrap_tasks
from dedup_clone.orchestration.bootstrap.bootstrap_form import bootstrap_params
from dedup_clone.orchestration.bootstrap.bootstrap_tasks import ShowExistingOperator, SwapExistingOperator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.shared.task_runtime import RESOLVE_BOOTSTRAP, RETURN_VALUE, has_spec, pull_spec
from dedup_clone.publish.planning.parent_generation import export_folder
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, row
from tests.contract.publish import bootstrap_steps as steps
from tests.shared.task_api import dag_run

ROWS = [row(7, 1), row(8, 2)]


class Run:
    """One run, whose tasks are called as the task runner calls them; `results` are their XComs."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bootstrap_tasks, "open_feed_services", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        self.setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.world = world
        self.results: dict[str, Any] = {}
        with DAG("feed_bootstrap", schedule=None) as self.dag:
            self.show_task = ShowExistingOperator(task_id=bootstrap_tasks.SHOW_TASK, setup=self.setup)
            self.show_task >> EmptyOperator(task_id=RESOLVE_BOOTSTRAP)

    def context(self, **params: Any) -> Any:
        def push(*, key: str, value: Any) -> None:
            if key == RETURN_VALUE:
                self.results[bootstrap_tasks.SHOW_TASK] = value

        ti = SimpleNamespace(xcom_push=push, xcom_pull=lambda task_ids: self.results.get(task_ids), map_index=-1)
        form = {name: param.value for name, param in bootstrap_params().items()} | params
        run = dag_run("feed_bootstrap", "by-hand")
        return {"ti": ti, "task_instance": ti, "dag": self.dag, "params": form, "dag_run": run}

    def show(self, **params: Any) -> dict[str, Any]:
        found = self.show_task.execute(self.context(**params))
        self.results[bootstrap_tasks.SHOW_TASK] = found
        return found

    def resolve(self, **params: Any) -> None:
        self.results[RESOLVE_BOOTSTRAP] = bootstrap_tasks.resolve(self.setup, self.context(**params))


@pytest.fixture
def by_hand(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Run:
    steps.create_table(world, world.feed.target)
    steps.insert(world, world.feed.target, ROWS)
    return Run(world, monkeypatch)


def test_a_dry_run_returns_the_preview_and_skips_every_later_task(by_hand: Run) -> None:
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(8, 1)])
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.show(dry_run=True)
    assert list(skipped.value.tasks) == [RESOLVE_BOOTSTRAP]
    shown = by_hand.results[bootstrap_tasks.SHOW_TASK]
    assert (shown["rows"], shown["surplus_rows"]) == (3, 1)
    assert "It would be refused" in shown["text"]
    assert by_hand.world.services.current.read().last_generation == 0


def test_a_refused_request_fails_without_retry_before_the_approval(by_hand: Run) -> None:
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(8, 1)])
    with pytest.raises(AirflowFailException, match=r"surplus rows of keys that occur more than once.*duplicates"):
        by_hand.show()
    assert by_hand.show(duplicates="keep_latest")["refused"] == []
    with pytest.raises(AirflowFailException, match=r"\[warehouse.nowhere\] does not exist"):
        by_hand.show(source_table="nowhere")


def test_the_shared_tasks_find_the_spec(by_hand: Run) -> None:
    assert not has_spec(by_hand.context())
    by_hand.show()
    by_hand.resolve(reason="moves here")
    assert has_spec(by_hand.context())
    spec = pull_spec(by_hand.context())
    assert (spec.generation, spec.parent) == (1, None)
    assert spec.reason.endswith(": moves here")
    assert by_hand.world.services.current.read().intent


def test_the_export_task_leaves_a_request_and_the_last_task_deletes_the_files(by_hand: Run) -> None:
    by_hand.show()
    by_hand.resolve()
    bootstrap_tasks.export(by_hand.setup, by_hand.context())
    services, spec = by_hand.world.services, pull_spec(by_hand.context())
    assert services.manifests.request(spec.attempt)
    assert len(list(services.store.objects(export_folder(services, spec.attempt)))) == 1
    assert bootstrap_tasks.delete_export(by_hand.setup, by_hand.context()) == 1


def test_the_swap_is_not_made_once_the_table_was_changed_after_the_checks(by_hand: Run) -> None:
    by_hand.show()
    by_hand.resolve()
    spec = pull_spec(by_hand.context())
    swap = SwapExistingOperator(task_id="swap_target", setup=by_hand.setup, step="swap", configuration={})
    swap.prepare(by_hand.world.services, spec)
    steps.insert(by_hand.world, by_hand.world.feed.target, [row(9, 9)])
    with pytest.raises(BootstrapRefused, match="was changed since its metadata was read"):
        swap.prepare(by_hand.world.services, spec)
