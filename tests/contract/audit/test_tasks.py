"""The DAG's tasks return their findings as XComs, skip where nothing is comparable, and refresh the page."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dedup_clone.orchestration.content_audit import audit_tasks
from dedup_clone.state.index import IndexFile
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from tests.contract.feed_setups import setup_of
from tests.shared.task_api import dag_run


class Run:
    """A DAG run whose tasks are called as functions; XComs go through JSON."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
        monkeypatch.setattr(audit_tasks, "open_feed_services", lambda setup: world.services)
        self.setup, self.xcoms = setup_of(world), dict[str, str]()
        ti = SimpleNamespace(xcom_pull=lambda task_ids: json.loads(self.xcoms[task_ids]))
        self.context: Any = {"ti": ti, "dag_run": dag_run("audit", "r"), "params": {"date": None, **params}}

    def whole(self) -> list[dict[str, Any]]:
        self.until_target()
        found = audit_tasks.fingerprint_generation_files(self.setup, self.context)
        self.xcoms[audit_tasks.FILES_TASK] = json.dumps(found)
        return audit_tasks.compare(self.setup, self.context)

    def until_target(self) -> None:
        """The first two tasks."""
        self.xcoms[audit_tasks.CHOOSE_TASK] = json.dumps(audit_tasks.select_dates(self.setup, self.context))
        found = audit_tasks.fingerprint_target_partitions(self.setup, self.context)
        self.xcoms[audit_tasks.TARGET_TASK] = json.dumps(found)


def test_an_equal_partition_is_on_the_page(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    found = Run(world, monkeypatch, date=TODAY.isoformat()).whole()
    assert found == [{"date": TODAY.isoformat(), "generation": 1, "outcome": "equal"}]
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index is not None
    assert index.audit is not None
    assert (index.audit.date, index.audit.outcome, index.audit.unequal_dates) == (TODAY, "equal", ())


def test_an_unequal_partition_fails_the_last_task_at_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    world.bigquery.query_and_wait(f"UPDATE warehouse.{world.feed.target} SET attr_value = 1 WHERE product_id = 1")
    with pytest.raises(AirflowFailException, match="does not hold what was published"):
        Run(world, monkeypatch).whole()
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index is not None
    assert index.audit is not None
    assert index.audit.unequal_dates == (TODAY,)


def test_files_that_were_pruned_meanwhile_end_the_run_at_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    run = Run(world, monkeypatch)
    run.until_target()
    folder = world.services.manifests.read(1).data_folder
    assert folder
    world.services.store.delete_prefix(folder.removeprefix("gs://state/"))
    with pytest.raises(AirflowFailException, match="trigger the audit again"):
        audit_tasks.fingerprint_generation_files(run.setup, run.context)


def test_before_the_first_publish_the_run_is_skipped(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowSkipException, match="nothing was published yet"):
        Run(world, monkeypatch).whole()


def test_a_text_that_is_no_date_is_refused(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match=r"\[yesterday\], expected a date"):
        Run(world, monkeypatch, date="yesterday").whole()
