"""The graph of each DAG, as golden files, and the rules that hold however it is rearranged."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden_files import FOLDER, assert_golden

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

FEEDS = ["product_attributes", "store_visits", "worked_example"]


def structure(dag: Any) -> dict[str, Any]:
    return {
        "max_active_runs": dag.max_active_runs,
        "params": sorted(dag.params),
        "tags": sorted(dag.tags),
        "tasks": {
            task.task_id: {
                "operator": type(task).__name__,
                "downstream": sorted(task.downstream_task_ids),
                "retries": task.retries,
                "trigger_rule": str(task.trigger_rule),
            }
            for task in dag.topological_sort()
        },
    }


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("family", ["watch", "publish", "rollback"])
def test_structure(bag: DagBag, feed: str, family: str) -> None:
    dag = bag.dags[f"{feed}_{family}"]
    assert_golden(f"dags/{dag.dag_id}.json", json.dumps(structure(dag), indent=1, sort_keys=True) + "\n")


def test_structure_of_the_watchdog(bag: DagBag) -> None:
    assert_golden(
        "dags/freshness_watchdog.json",
        json.dumps(structure(bag.dags["freshness_watchdog"]), indent=1, sort_keys=True) + "\n",
    )


def test_each_feed_has_a_task_of_the_watchdog_that_depends_on_no_other(bag: DagBag) -> None:
    dog = bag.dags["freshness_watchdog"]
    assert sorted(dog.task_ids) == [f"watch_{feed}" for feed in FEEDS]
    assert [t.task_id for t in dog.tasks if t.upstream_task_ids or t.downstream_task_ids] == []


@pytest.mark.parametrize("feed", FEEDS)
def test_each_publish_has_a_deadline_counted_from_the_arrival(bag: DagBag, feed: str) -> None:
    (deadline,) = bag.dags[f"{feed}_publish"].deadline
    assert type(deadline.reference).__name__ == "ArrivalReference"
    assert deadline.interval == timedelta(minutes=60)
    assert deadline.callback.path == "dedup_clone.orchestration.missed_deadline.tell_of_missed_deadline"
    assert deadline.callback.kwargs["feed"] == feed


@pytest.mark.parametrize("feed", FEEDS)
def test_the_swap_lies_downstream_of_every_step_it_relies_on(bag: DagBag, feed: str) -> None:
    swap = bag.dags[f"{feed}_publish"].get_task("swap_target")
    assert swap.get_flat_relative_ids(upstream=True) == {
        "resolve_publish",
        "dedup_snapshot",
        "load_staging",
        "check_staging",
    }


def test_every_task_has_a_time_limit_and_an_owner(bag: DagBag) -> None:
    without = [
        f"{dag.dag_id}.{task.task_id}"
        for dag in bag.dags.values()
        for task in dag.tasks
        # the sensor waits, deferred, for as long as it takes; its trigger has a limit of its own
        if (not task.execution_timeout and task.task_id != "notice_delivery") or task.owner != "data-platform"
    ]
    assert without == []


def test_no_golden_file_is_orphaned(bag: DagBag) -> None:
    assert {p.stem for p in (FOLDER / "dags").glob("*.json")} == set(bag.dags)


def test_the_production_profile_has_the_same_tasks_and_edges(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    from tests.dags.conftest import DAGS

    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "gcp")
    production = DagBag(str(DAGS))
    assert production.import_errors == {}
    for dag_id, dag in bag.dags.items():
        ours, theirs = structure(dag), structure(production.dags[dag_id])
        for side in (ours, theirs):
            for task in side["tasks"].values():
                del task["operator"]
        assert ours == theirs


def test_the_production_profile_refuses_spark_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    from dedup_clone.contract.errors import ConfigurationError
    from tests.dags.conftest import DAGS

    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "gcp")
    task: Any = DagBag(str(DAGS)).dags["product_attributes_publish"].get_task("dedup_snapshot")
    with pytest.raises(ConfigurationError, match=r"Runner \[serverless\] cannot submit.*set `runner: local`"):
        task.run_spark({})
