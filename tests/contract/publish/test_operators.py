"""The tasks of the DAGs as Airflow runs them: forms, dry run, the lease, jobs, approval, and what no retry helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    ParamValidationError,
    TaskDeferred,
)

from dedup_clone.contract.errors import CheckFailed, JobFailed
from testkit import operations, runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks, Watchdog
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, job_id, row
from testkit.lost_answers import losing_answers
from tests.contract.publish.existing_tables import create_table

RunOf = Callable[..., DagTasks]
AGAIN = {"snapshot_id": "7", "reason": "once more"}
RESOLVE, APPROVE, ACCEPTED = "resolve_publish", "approve_accepted", "resolve_accepted"
CHECK, SWAP = "check_staging", "swap_target"


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> TaskApi:
    return TaskApi(monkeypatch)


@pytest.fixture
def run_of(world: FeedOnStandIn, airflow: TaskApi, monkeypatch: pytest.MonkeyPatch) -> RunOf:
    """`run_of(dag, **form)`: a run of this DAG."""
    return partial(DagTasks, world, airflow, monkeypatch)


@pytest.fixture
def by_hand(run_of: RunOf) -> DagTasks:
    return run_of("publish")


def test_a_whole_run_publishes_and_tells_airflow_of_the_table(by_hand: DagTasks) -> None:
    world = by_hand.world
    name = world.land(7, [row(7, 1), row(7, 2)])
    by_hand.execute(RESOLVE, **AGAIN, dates=[])
    assert by_hand.skipped == [APPROVE, ACCEPTED]  # no failed check is accepted: nobody is asked
    verdict = world.state_of("_freshness").read(f"{world.feed.feed}.json")
    assert (verdict["waiting"], verdict["readers_see"]) == (
        1,
        "no table yet: nothing was published",
    )
    for task_id in ("dedup_snapshot", "load_staging", CHECK, SWAP, "commit_generation", "prune_state"):
        by_hand.execute(task_id)
    assert world.rows() == expected(row(7, 1), row(7, 2))

    (asset,) = by_hand.dag.get_task("commit_generation").outlets
    assert asset.uri.endswith(f"/warehouse/{world.feed.target}")
    assert asset.extra["owner"] == world.feed.owner
    extra = by_hand.events[asset].extra
    assert (extra["snapshot_id"], extra["generation"], extra["rows"]) == (7, 1, 2)
    snapshot_id, marker = name.split("-")
    assert extra["deliveries"] == [{"snapshot_id": 7, "marker_generation": int(marker)}]
    by_hand.run_id = f"publish__{snapshot_id}__{marker}"
    by_hand.airflow.add_run(by_hand.dag.dag_id, by_hand.run_id)
    with pytest.raises(AirflowSkipException, match="part of generation 1 already"):
        by_hand.execute(RESOLVE, snapshot_id=snapshot_id, marker_generation=marker, reason="", accepted_checks=[])


def test_a_dry_run_returns_the_preview_and_skips_every_later_task(by_hand: DagTasks) -> None:
    name = by_hand.world.land(7, [row(7, 1)])
    preview = by_hand.execute(RESOLVE, snapshot_id="7", dry_run=True)
    assert {APPROVE, ACCEPTED, "dedup_snapshot", "load_staging", CHECK, SWAP, "commit_generation"} <= {*by_hand.skipped}
    assert "Target would change" in preview["text"]
    assert f"what a publish of delivery {name} would do" in preview["text"]
    assert by_hand.world.state.current == {}


def test_the_form_reaches_the_run(by_hand: DagTasks) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    form = ParamsDict(dict(by_hand.dag.params.items()))
    dates, plan = by_hand.dag.params.get_param("dates"), by_hand.dag.params.get_param("plan")
    assert dates.resolve(["2026-01-01..2026-01-31", "2026-02-03"]) == ["2026-01-01..2026-01-31", "2026-02-03"]
    for text in ("yesterday", "2026-01-01...2026-01-02", "2026-01-01, 2026-01-02"):
        with pytest.raises(ParamValidationError):
            dates.resolve([text])
    with pytest.raises(ParamValidationError):
        plan.resolve("fastest")
    for empty in ({}, {"engine": None, "plan": None}):
        form.update({**AGAIN, "dry_run": None, "dates": [f"{TODAY}..{TODAY}"], **empty})
        by_hand.execute(RESOLVE, **form.validate())
        request = world.state.read(f"attempts/{by_hand.plan.id}/attempt.json")
        assert (request["engine"], request["plan"], request["dates"]) == ("spark", "auto", [str(TODAY)])
    by_hand.execute(RESOLVE, engine="bigquery", plan=None, dates=[], **{"airflow/task_span_detail_level": "2"})
    assert by_hand.plan.engine == "bigquery"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"Name the snapshot to publish: parameter \[snapshot_id\]; registered snapshots: 7, 12\."),
        ({"snapshot_id": "9"}, r"Snapshot \[9\] is not registered.*registered snapshots: 7, 12\."),
        ({"snapshot_id": "7", "marker_generation": "1"}, r"Delivery \[1\] of snapshot \[7\].*its deliveries: [0-9]+"),
        ({"snapshot_id": "7", "dates": ["2020-13-01"]}, "names no date"),
        ({"snapshot_id": "7", "dry-run": True}, r"has no field \['dry-run'\]"),
        ({"snapshot_id": "7", "engine": "merge", "plan": "rewrite"}, r"Engine \[merge\] has no plan"),
        ({"snapshot_id": "7", "discard": True, "dates": [str(TODAY)]}, r"A discard publishes nothing.*'dates'"),
    ],
    ids=["none", "snapshot", "marker", "date", "field", "plan", "discard"],
)
def test_what_no_retry_can_help_fails_the_first_task_and_names_the_known_ones(
    by_hand: DagTasks, params: dict[str, Any], message: str
) -> None:
    for snapshot in (12, 7):
        by_hand.world.land(snapshot, [row(snapshot, 1)])
    for dry in (False, True):
        with pytest.raises(AirflowFailException, match=message):
            by_hand.execute(RESOLVE, **params, dry_run=dry)
    assert by_hand.world.state.current == {}


def test_a_delivery_whose_files_show_that_it_is_refused_ends_the_first_task(by_hand: DagTasks) -> None:
    name = by_hand.world.land_files(7, {f"date={TODAY}/part-0.parquet": b""})
    with pytest.raises(AirflowFailException, match=rf"Every delivery was refused(?s:.*)\[{name}\].*is empty"):
        by_hand.execute(RESOLVE, **AGAIN)


def test_a_run_waits_for_the_lease_of_another_at_work_and_then_acquires_it(by_hand: DagTasks) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    other = runs.publish(world, world.land(8, [row(8, 1)]), run_id="other").until("resolve")
    world.running.add("other")
    with pytest.raises(TaskDeferred) as deferred:
        by_hand.execute(RESOLVE, **AGAIN)
    other.end()
    assert isinstance(deferred.value.trigger, TimeDeltaTrigger)
    by_hand.resume(RESOLVE, "a time")
    assert (world.state.lease or {})["run_id"] == "by-hand"


def test_a_person_discards_a_held_delivery_in_the_form(by_hand: DagTasks) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    with pytest.raises(AirflowFailException, match="is not held"):
        by_hand.execute(RESOLVE, **AGAIN, discard=True)
    world.configure(checks={"max_new_share": 0.2})
    name = world.land(8, [row(8, product) for product in range(1, 4)])
    with pytest.raises(CheckFailed):
        world.publish(name)
    operations.recover_lease(world)
    with pytest.raises(AirflowSkipException, match=rf"Delivery \[{name}\] is discarded"):
        by_hand.execute(RESOLVE, snapshot_id="8", discard=True, reason="garbage")
    assert (world.state.deliveries("refused"), world.state.lease) == ([name], None)


def test_no_spark_runs_for_an_attempt_that_has_ended(by_hand: DagTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure people clear the failed task alone. The attempt is discarded by then."""
    run = runs.publish(by_hand.world, by_hand.world.land(7, [row(7, 1)])).until("resolve")
    by_hand.has_taken(run.plan)
    run.end()
    started = Mock()
    monkeypatch.setattr("dedup_clone.orchestration.runners.dedup.run_local_spark", started)
    with pytest.raises(AirflowFailException, match="Clear the run from its first task"):
        by_hand.execute("dedup_snapshot")
    assert not started.called


# -- BigQuery jobs: a task that runs again attaches to its job, reuses what ended well, or takes the next id --


@pytest.fixture
def loading(by_hand: DagTasks) -> DagTasks:
    """A run that is about to load."""
    by_hand.has_taken(runs.publish(by_hand.world, by_hand.world.land(7, [row(7, 1)])).until("dedup").plan)
    return by_hand


def jobs_of(run: DagTasks) -> list[str]:
    return list((run.world.state.lease or {})["jobs"])


def test_a_task_that_runs_again_reuses_the_job_that_ended_well(loading: DagTasks) -> None:
    first = job_id(loading.plan, "load", 1)
    assert loading.execute("load_staging") == loading.execute("load_staging") == first
    assert jobs_of(loading) == [first]
    assert loading.world.rows(loading.world.feed.staging) == expected(row(7, 1))


def test_a_job_is_made_once_and_waited_for_although_the_answer_to_its_insertion_is_lost(loading: DagTasks) -> None:
    world = loading.world
    with losing_answers(world.bigquery) as world.bigquery:
        assert loading.execute("load_staging") == job_id(loading.plan, "load", 1)
        loading.execute(CHECK)
        assert loading.execute(SWAP) == job_id(loading.plan, "swap", 1)
    assert world.rows() == expected(row(7, 1))


def test_the_job_after_one_that_failed_is_made_once(loading: DagTasks) -> None:
    loading.world.fail_jobs(job_id(loading.plan, "load", 1), message="try again")
    with pytest.raises(JobFailed, match="try again"):
        loading.execute("load_staging")
    assert loading.resume("load_staging", "a time") == job_id(loading.plan, "load", 2)  # it waited for something else
    assert loading.resume("load_staging", {"status": "success"}) == job_id(loading.plan, "load", 2)


def test_a_job_that_failed_is_followed_by_the_next_id_and_is_retried_only_if_that_may_help(loading: DagTasks) -> None:
    world = loading.world
    loading.execute("load_staging")
    loading.execute(CHECK)
    name = job_id(loading.plan, "swap", 1)
    world.fail_jobs(name, message="try again")
    with pytest.raises(Exception, match="try again") as raised:
        loading.execute(SWAP)
    assert not isinstance(raised.value, AirflowFailException)
    with pytest.raises(JobFailed, match="try again"):  # the same by its trigger
        loading.resume(SWAP, {"status": "error", "message": "try again"})
    world.query(f"CREATE TABLE .{world.feed.target} (x INT64)")
    world.query(f"ALTER TABLE .{world.feed.target} SET OPTIONS (labels = [('dedup_clone_generation', '9')])")
    with pytest.raises(Exception, match="somebody else"):
        loading.execute(SWAP)
    with pytest.raises(AirflowFailException, match=rf"\[{name[:-1]}2\] failed.*somebody else"):
        loading.resume(SWAP, {"status": "error", "message": "somebody else"})
    world.query(f"DROP TABLE .{world.feed.target}")
    assert loading.execute(SWAP) == job_id(loading.plan, "swap", 3)
    assert jobs_of(loading)[1:] == [job_id(loading.plan, "swap", number) for number in (1, 2, 3)]


def test_without_the_lease_no_job_is_made_and_no_retry_tries_to(loading: DagTasks) -> None:
    operations.recover_lease(loading.world)
    with pytest.raises(AirflowFailException, match="Clear the run from its first task"):
        loading.execute("load_staging")


# -- Approval --


@pytest.fixture
def awaiting_approval(by_hand: DagTasks, monkeypatch: pytest.MonkeyPatch) -> DagTasks:
    """A replay that accepts the check by which snapshot 8 was stopped, and waits for approval."""
    world = by_hand.world
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    world.configure(checks={"max_changed_share": 0.5})
    stopped = runs.publish(world, world.land(8, [row(8, n, 99) for n in range(10)])).until("load")
    with pytest.raises(CheckFailed):
        stopped.step("check")
    stopped.end()
    by_hand.execute(
        RESOLVE, snapshot_id="8", accepted_checks=["changed_share"], reason="prices\n| `were` **[reset]** <b>"
    )
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: None)
    by_hand.execute(APPROVE)
    return by_hand


def answer(run: DagTasks, option: str) -> None:
    event = {"chosen_options": [option], "params_input": {}, "responded_at": run.world.now(), "responded_by_user": None}
    run.resume(APPROVE, event, "execute_complete")


def test_whoever_approves_reads_evidence_and_reason_and_the_run_acquires_the_lease_then(
    awaiting_approval: DagTasks,
) -> None:
    run, world = awaiting_approval, awaiting_approval.world
    text = run.results[RESOLVE, "return_value"]["text"]
    assert "| changed_share | 10 of 10 rows changed (100.0000%" in text
    assert text.endswith(r"Reason given: prices \| \`were\` \*\*\[reset\]\*\* \<b\>")
    assert world.state.lease is None
    with pytest.raises(AirflowFailException, match="Nobody answered in time"):
        run.resume(APPROVE, {"error": "no answer within an hour", "error_type": "timeout"}, "execute_complete")
    answer(run, "Approve")
    for task_id in (ACCEPTED, "dedup_snapshot", "load_staging", CHECK, SWAP, "commit_generation"):
        run.execute(task_id)
    assert world.rows() == expected(*(row(8, n, 99) for n in range(10)))


def test_a_rejection_skips_every_later_task(awaiting_approval: DagTasks) -> None:
    answer(awaiting_approval, "Reject")
    behind = awaiting_approval.dag.get_task(APPROVE).get_flat_relative_ids(upstream=False)
    assert {ACCEPTED, "dedup_snapshot", SWAP, "reconcile_failure"} <= behind == {*awaiting_approval.skipped}
    assert awaiting_approval.world.state.lease is None


def test_a_person_is_asked_once_no_other_run_is_at_work(awaiting_approval: DagTasks) -> None:
    run, world = awaiting_approval, awaiting_approval.world
    other = runs.publish(world, world.land(9, [row(9, 1)]), run_id="other").until("resolve")
    world.running.add("other")
    with pytest.raises(TaskDeferred):
        run.execute(RESOLVE)
    with pytest.raises(TaskDeferred):  # it came after the question
        run.execute(ACCEPTED)
    other.end()
    run.resume(RESOLVE, "a time")
    run.resume(ACCEPTED, "a time")
    assert (world.state.lease or {})["run_id"] == "by-hand"


# -- The other DAGs that a person starts --


def test_an_erasure_shows_its_rows_erases_them_and_tells_airflow_of_the_feeds_table(
    world: FeedOnStandIn, run_of: RunOf
) -> None:
    """By an alias, because the DAG file does not know which table a run changes."""
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    erase = run_of("erase", reason="request 17")
    erase.user = "vera"
    with pytest.raises(AirflowFailException, match="There is no file of keys"):
        erase.execute("show_erasure", keys_file="keys.csv")
    world.state.write("to_erase/keys.csv", "product_id\n1\n2\n")
    assert "erase 2 keys" in erase.execute("show_erasure")["text"]
    world.state.write("to_erase/keys.csv", "product_id\n2\n")
    with pytest.raises(AirflowFailException, match=r"\[keys.csv\] was replaced since it was shown"):
        erase.execute("resolve_erasure")
    assert world.state.lease is None
    shown = erase.execute("show_erasure")
    assert "erase 1 keys" in shown["text"]
    assert f"with these keys: **1**, on: {TODAY}" in shown["text"]
    erase.execute("resolve_erasure")
    assert (world.state.lease or {})["kind"] == "erase"
    assert (erase.plan.generation, erase.plan.reason) == (2, "request 17 (asked by vera)")
    for task_id in ("erase_rows", "load_staging", CHECK, SWAP, "commit_generation"):
        erase.execute(task_id)
    (alias,) = erase.dag.get_task("commit_generation").outlets
    (event,) = erase.events[alias].asset_alias_events
    assert event.dest_asset_key.uri.endswith(f"/warehouse/{world.feed.target}")
    assert (event.extra["generation"], event.extra["rows"]) == (2, 1)


def test_the_tasks_of_a_rebuild_give_the_table_another_form(world: FeedOnStandIn, run_of: RunOf) -> None:
    rows = [row(7, 1), row(7, 2)]
    world.publish(world.land(7, rows))
    world.configure(table={"cluster_by": ("store_id",)})
    with pytest.raises(CheckFailed, match="dedup_clone_rebuild"):
        world.resolve(world.land(8, [row(8, 1)]))
    rebuild = run_of("rebuild", reason="stores are asked for")
    begin = ("show_rebuild", "resolve_rebuild", "export_rebuilt", "dedup_rebuilt")
    for task_id in (*begin, "load_staging", CHECK, SWAP, "commit_generation", "delete_copies"):
        rebuild.execute(task_id)
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    assert (world.rows(), table.clustering_fields) == (expected(*rows), ["store_id"])


def test_a_rollback_waits_for_a_run_that_is_at_work_and_says_what_to_do_if_it_hangs(
    world: FeedOnStandIn, run_of: RunOf
) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    other = runs.publish(world, world.land(8, [row(8, 1)]), run_id="at-work").until("resolve")
    world.running.add("at-work")
    rollback = run_of("rollback", generation=1, reason="bad")
    with pytest.raises(TaskDeferred) as deferred:
        rollback.execute("show_difference")
    assert re.search(r"run \[at-work\].*mark it as failed", str(deferred.value.__context__))
    world.running.clear()
    other.end()
    shown = rollback.resume("show_difference", "a time")
    assert "from generation 1 to the content of 1" in shown["text"]


@pytest.mark.parametrize("dag", ["bootstrap", "erase", "rebuild", "retire", "rollback"])
def test_whoever_approves_reads_who_asked_and_why(world: FeedOnStandIn, run_of: RunOf, dag: str) -> None:
    form: dict[str, Any] = {"rollback": {"generation": 1}, "erase": {"keys_file": "keys.csv"}}.get(dag, {})
    if dag == "bootstrap":
        create_table(world)
        world.query(f"INSERT INTO .{world.feed.target} (date, product_id, update_id) VALUES (CURRENT_DATE(), 1, 1)")
    else:
        world.publish(world.land(7, [row(7, 1)]))
        world.state.write("to_erase/keys.csv", "product_id\n1\n")
    if dag == "rebuild":
        world.configure(table={"cluster_by": ("store_id",)})
    tasks = run_of(dag, reason="prices were reset", **form)
    tasks.user = "vera"
    show = next(task_id for task_id in tasks.dag.task_ids if task_id.startswith("show_"))
    shown = tasks.execute(show)
    text = shown if isinstance(shown, str) else shown["text"]
    assert text.endswith("\n\nReason given: prices were reset (asked by vera)")


def test_the_first_task_refuses_a_retired_feed(world: FeedOnStandIn, run_of: RunOf) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    operations.retire(world, "keep")
    world.state.write("to_erase/keys.csv", "product_id\n1\n")
    forms = {"erase": {"keys_file": "keys.csv"}, "publish": {"snapshot_id": "9"}}
    for dag in ("bootstrap", "erase", "publish", "rebuild", "retire"):
        tasks = run_of(dag, reason="prices were reset", **forms.get(dag, {}))
        show = next(task_id for task_id in tasks.dag.task_ids if task_id.startswith(("show_", RESOLVE)))
        with pytest.raises(AirflowFailException, match=rf"Feed \[{world.feed.feed}\] was retired.*delete .*CURRENT"):
            tasks.execute(show)


def test_a_retirement_ends_the_alerts_of_the_feed(
    world: FeedOnStandIn,
    run_of: RunOf,
    airflow: TaskApi,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dog = Watchdog(world, airflow, monkeypatch, caplog)
    world.publish(world.land(7, [row(7, 1)]))
    airflow.paused = {f"{world.feed.feed}_watch"}
    assert dog.check() == ["ALERT: stopped-watch_paused"]
    tasks = run_of("retire", reason="no longer needed", target="keep")
    tasks.execute("show_retirement")
    caplog.clear()
    tasks.execute("retire_feed")
    assert dog.titles() == ["RECOVERED: stopped-watch_paused"]
    assert world.state.names("incidents") == []


def test_a_second_retirement_that_decides_otherwise_about_target_does_not_seem_to_succeed(
    world: FeedOnStandIn, run_of: RunOf
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    second = run_of("retire", reason="again", target="drop")
    second.execute("show_retirement")
    operations.retire(world, "keep")
    with pytest.raises(AirflowFailException, match=r"was retired at .* by run \[retire\]: nothing was done"):
        second.execute("retire_feed")
    assert world.rows() == expected(row(7, 1))
