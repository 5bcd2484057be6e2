"""The publish DAG's own operators as Airflow runs them: dry run, waiting for the lease, approval, invalid forms."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
    ParamValidationError,
    TaskDeferred,
)

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.freshness.verdict import read_verdict
from dedup_clone.orchestration.publish.approval_operators import EVIDENCE
from dedup_clone.orchestration.publish.publish_form import publish_params, read_publish_request
from dedup_clone.orchestration.publish.resolve_operator import MAX_ACTIVE_RUNS
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.streamed_rows import SHARE_AFTER_WAIT
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.metadata import StreamingBuffer, TableMetadata
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from tests.contract.publish.operator_run import Run


@pytest.fixture
def by_hand(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(world, monkeypatch, "by-hand")


def test_a_dry_run_returns_the_preview_and_skips_every_later_task(by_hand: Run) -> None:
    name = by_hand.world.land(7, [row(7, 1)])
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.resolve(snapshot_id="7", dry_run=True)
    assert sorted(skipped.value.tasks) == ["approve_accepted", "check_staging"]
    preview = by_hand.results["resolve_publish", "return_value"]
    assert preview["changes_target"] is True
    assert f"dry run of delivery {name}" in preview["text"]
    assert by_hand.world.services.current.read().last_generation == 0


def test_the_page_counts_a_delivery_as_waiting_from_the_first_task_on(by_hand: Run) -> None:
    world = by_hand.world
    by_hand.resolve(snapshot_id=world.land(7, [row(7, 1)]).split("-")[0], reason="once more")
    verdict = read_verdict(world.services.store, world.feed.feed)
    assert verdict is not None
    assert (verdict.waiting, verdict.headline) == (1, "Nothing is published yet; 1 waits.")


def test_a_replay_of_some_dates_reaches_the_spec(by_hand: Run) -> None:
    by_hand.world.publish(by_hand.world.land(7, [row(7, 1)]))
    by_hand.resolve(snapshot_id="7", dates=[f"{TODAY}..{TODAY}"], reason="once more")
    assert by_hand.spec.dates == (TODAY,)


def test_a_delivery_whose_files_show_that_it_is_refused_ends_the_first_task_without_retry(by_hand: Run) -> None:
    name = by_hand.world.land_files(7, {f"date={TODAY}/part-0.parquet": b""})
    with pytest.raises(AirflowFailException, match=rf"Every delivery was refused(?s:.*)\[{name}\].*is empty"):
        by_hand.resolve(snapshot_id="7", reason="once more")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"Name the snapshot to publish: parameter \[snapshot_id\]; registered snapshots: 7, 12\."),
        ({"snapshot_id": "9"}, r"Snapshot \[9\] is not registered.*registered snapshots: 7, 12\."),
        (
            {"snapshot_id": "7", "marker_generation": "1"},
            r"Delivery \[1\] of snapshot \[7\].*its deliveries: [0-9]+",
        ),
        ({"snapshot_id": "7", "dates": ["2020-13-01"]}, "names no date"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_an_unknown_delivery_is_refused_without_retry_and_the_known_ones_are_named(
    by_hand: Run, params: dict[str, Any], message: str, dry: bool
) -> None:
    for snapshot in (12, 7):
        by_hand.world.land(snapshot, [row(snapshot, 1)])
    with pytest.raises(AirflowFailException, match=message):
        by_hand.resolve(**params, dry_run=dry)
    assert by_hand.world.services.current.read().intent is None


def test_a_run_waits_for_the_lease_of_another_at_work_and_then_acquires_it(by_hand: Run) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    spec = world.resolve(world.land(8, [row(8, 1)]), run_id="other")
    world.running.add("other")
    with pytest.raises(TaskDeferred) as deferred:
        by_hand.resolve(snapshot_id="7", reason="once more")
    assert deferred.value.method_name == "retry_resolve"
    world.services.current.release(spec.attempt)
    again = by_hand.resolve_task.retry_resolve(
        by_hand.context(by_hand.resolve_task, snapshot_id="7", reason="once more"), None
    )
    assert world.services.current.require_intent(again["attempt"]).run_id == "by-hand"


def test_replays_that_could_wait_for_approval_leave_half_of_the_slots_to_arrivals(by_hand: Run) -> None:
    by_hand.world.land(7, [row(7, 1)])
    others = [f"manual__{number}" for number in range(MAX_ACTIVE_RUNS // 2)]
    for other in others:
        by_hand.airflow.add_run("feed_publish", other)
    with pytest.raises(AirflowFailException, match=r"\[5\] runs of \[feed_publish\] are active.*Required Actions"):
        by_hand.resolve(snapshot_id="7", accepted_checks=["new_share"], reason="a first one")
    by_hand.resolve(snapshot_id="7", reason="without an accepted check")
    by_hand.world.services.current.release(by_hand.spec.attempt)
    by_hand.airflow.add_run("feed_publish", others[0], "success")
    by_hand.resolve(snapshot_id="7", accepted_checks=["new_share"], reason="a first one")


def test_a_published_delivery_skips_the_run(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    snapshot_id, marker = name.split("-")
    automatic = Run(world, monkeypatch, f"publish__{snapshot_id}__{marker}")
    with pytest.raises(AirflowSkipException, match="part of generation 1 already"):
        automatic.resolve(snapshot_id=snapshot_id, marker_generation=marker)


def test_a_person_discards_a_held_delivery_in_the_form(by_hand: Run) -> None:
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    with pytest.raises(AirflowFailException, match="is not held"):
        by_hand.resolve(snapshot_id="7", discard=True, reason="garbage")
    world.feed = world.feed.model_copy(update={"checks": CheckSettings()})
    with pytest.raises(CheckFailed):
        world.publish(world.land(8, [row(8, product) for product in range(1, 4)]))
    recover(world.services, dag_id="other", run_id="other")
    with pytest.raises(AirflowSkipException, match=r"Delivery \[8-[0-9]+\] is discarded"):
        by_hand.resolve(snapshot_id="8", discard=True, reason="garbage")
    (refused,) = world.services.arrivals.refused()
    assert refused.snapshot_id == 8
    assert world.services.current.read().intent is None


def test_when_no_accepted_check_failed_the_approval_is_skipped(by_hand: Run) -> None:
    by_hand.world.land(7, [row(7, 1)])
    by_hand.resolve(snapshot_id="7", accepted_checks=["new_share"], reason="a first one")
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        by_hand.check()
    assert skipped.value.tasks == ["approve_accepted"]
    assert by_hand.results["check_staging", "return_value"]["attempt"] == by_hand.spec.attempt


@pytest.mark.parametrize("buffered", ["staging", pytest.param("target", marks=pytest.mark.exhaustive)])
def test_the_checks_wait_for_a_streaming_buffer(by_hand: Run, monkeypatch: pytest.MonkeyPatch, buffered: str) -> None:
    """Until it is empty, or until only the share of the freshness SLA is left that the swap needs."""
    world = by_hand.world
    world.publish(world.land(7, [row(7, 1)]))
    world.land(8, [row(8, 1)])
    by_hand.resolve(snapshot_id="8", reason="once more")
    name = {"staging": world.feed.staging, "target": world.feed.target}[buffered]
    read, streams = Warehouse.table, True

    def table(warehouse: Warehouse, table_name: str) -> TableMetadata | None:
        found = read(warehouse, table_name)
        if found is None or table_name != name or not streams:
            return found
        return replace(found, streaming_buffer=StreamingBuffer(12, found.created_at))

    monkeypatch.setattr(Warehouse, "table", table)
    with pytest.raises(TaskDeferred) as deferred:
        by_hand.check()
    assert deferred.value.method_name == "resume_after_interval"

    begin, sla = world.now(), timedelta(minutes=world.feed.freshness.sla_minutes)
    world.now = lambda: begin + sla * (1 - SHARE_AFTER_WAIT)
    with pytest.raises(AirflowFailException, match=rf"streaming_buffer: \[{name}: about 12 streamed rows, the oldest"):
        by_hand.check_task.resume_after_interval(by_hand.context(by_hand.check_task))

    streams = False
    with pytest.raises(DownstreamTasksSkipped):
        by_hand.check_task.resume_after_interval(by_hand.context(by_hand.check_task))
    assert by_hand.results["check_staging", "return_value"]["attempt"] == by_hand.spec.attempt


@pytest.fixture
def awaiting_approval(by_hand: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A replay whose accepted check failed and that waits for approval."""
    world = by_hand.world
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    world.feed = world.feed.model_copy(update={"checks": CheckSettings(max_changed_share=0.5)})
    world.land(8, [row(8, n, 99) for n in range(10)])
    by_hand.resolve(snapshot_id="8", accepted_checks=["changed_share"], reason="prices were reset")
    by_hand.check()
    monkeypatch.setattr(HITLOperator, "execute", lambda self, context: None)
    by_hand.approve_task.execute(by_hand.context(by_hand.approve_task))
    return by_hand


def test_a_rejection_and_a_timeout_fail_the_task_without_retry_and_an_approval_has_the_lease_again(
    awaiting_approval: Run,
) -> None:
    assert "changed_share" in awaiting_approval.results["check_staging", EVIDENCE]
    assert awaiting_approval.world.services.current.require_intent(awaiting_approval.spec.attempt).waits_for_approval
    with pytest.raises(AirflowFailException, match="Reject"):
        awaiting_approval.answer("Reject")
    event = {"error": "no answer within an hour", "error_type": "timeout"}
    context = awaiting_approval.context(awaiting_approval.approve_task)
    with pytest.raises(AirflowFailException, match="Nobody answered in time"):
        awaiting_approval.approve_task.execute_complete(context, event)
    awaiting_approval.answer("Approve")
    assert not awaiting_approval.world.services.current.require_intent(
        awaiting_approval.spec.attempt
    ).waits_for_approval


@pytest.mark.exhaustive
def test_a_late_approval_fails_without_retry_and_names_the_next_step(awaiting_approval: Run) -> None:
    awaiting_approval.world.running.add("by-hand")
    awaiting_approval.world.publish(awaiting_approval.world.land(9, [row(9, n) for n in range(10)]), run_id="automatic")
    with pytest.raises(AirflowFailException, match="Clear the run from its first task"):
        awaiting_approval.answer("Approve")
    with pytest.raises(AirflowFailException, match="this attempt has ended"):  # a retry that would ask again
        awaiting_approval.approve_task.execute(awaiting_approval.context(awaiting_approval.approve_task))


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01...2026-01-02", "2026-01-01, 2026-01-02"])
def test_the_form_refuses_an_invalid_date(text: str, world: FeedOnStandIn) -> None:
    dates = publish_params(world.feed)["dates"]
    assert dates.resolve(["2026-01-01..2026-01-31", "2026-02-03"]) == ["2026-01-01..2026-01-31", "2026-02-03"]
    with pytest.raises(ParamValidationError):
        dates.resolve([text])


@pytest.mark.parametrize("empty", [{}, {"engine": None, "plan": None}, {"engine": "", "plan": ""}])
def test_a_run_takes_engine_and_plan_from_the_feed_unless_one_is_chosen(by_hand: Run, empty: dict[str, Any]) -> None:
    form = ParamsDict(publish_params(by_hand.world.feed))
    form.update({"snapshot_id": "7", "dry_run": None, "reason": "once more", **empty})
    delivery = by_hand.world.land(7, [row(7, 1)])
    context = by_hand.context(by_hand.resolve_task, **form.validate())
    request = read_publish_request(by_hand.world.services, context)
    assert (request.delivery.name, request.engine, request.plan) == (delivery, None, None)


def test_the_form_offers_the_plans_of_an_operator_and_refuses_the_oracle_and_the_fallback(world: FeedOnStandIn) -> None:
    plan = publish_params(world.feed)["plan"]
    assert [plan.resolve(name) for name in ("", "auto", "adopt", "rewrite")] == ["", "auto", "adopt", "rewrite"]
    for name in ("window", "antijoin"):
        with pytest.raises(ParamValidationError, match=f"'{name}' is not one of .*'auto', 'adopt', 'rewrite'"):
            plan.resolve(name)
