"""A delivery that a check on the data stopped is held: later ones are published without it, and a person decides.

A replay that accepts the failed check waits for approval; whoever wants the lease meanwhile goes first.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import ApprovalTooLate, CheckFailed, ConfigurationError, LeaseHeld, LostRace
from testkit import deliveries, operations, runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import Watchdog
from testkit.fake_dedup_job import FakeDedupJob
from testkit.feed_on_stand_in import FeedOnStandIn, Row, expected, row
from testkit.killed_writes import failing_writes

ACCEPTS: dict[str, Any] = {"replay": True, "accepted_checks": ("new_share",), "reason": "a new region"}
CLEAN = range(10)
GARBAGE = range(100, 140)


class NoJob:
    """Takes the place of the dedup job where none may run."""

    def run(self, request_uri: str) -> None:
        raise AssertionError(f"a dedup job ran for {request_uri}")


def rows(snapshot_id: int, *products: range) -> list[Row]:
    return [row(snapshot_id, product) for numbers in products for product in numbers]


@pytest.fixture
def feed(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed with the default bounds, whose snapshot 3 is live."""
    bounds = {"max_missing_dates": 1, "max_new_share": 0.2, "max_survivor_share": 0.2, "max_changed_share": 0.5}
    world.configure(checks={**bounds, "max_times_usual": 10.0})
    world.publish(world.land(3, rows(3, CLEAN)))
    return world


def stop(world: FeedOnStandIn, name: str, **changes: Any) -> None:
    """Publish until a check fails, and end the attempt as the DAG does."""
    run = runs.publish(world, name, **changes)
    with pytest.raises(CheckFailed):
        run.finish()
    assert not run.end()


def test_a_clean_snapshot_is_published_without_the_stopped_one_which_only_its_replay_publishes(
    feed: FeedOnStandIn,
) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    assert feed.nothing_to_do(garbage)  # its own run was cleared
    feed.publish(feed.land(5, rows(5, CLEAN)))
    assert feed.rows() == expected(*rows(5, CLEAN))
    operations.delete_obsolete(feed)
    assert feed.state.generations("data") == [1, 3]  # not the stopped one's
    feed.roll_back(1)
    assert deliveries.held_deliveries(feed) == [garbage]
    assert [d["snapshot_id"] for d in feed.state.manifest()["excluded"]] == [5]
    waits = feed.land(6, rows(6, CLEAN, range(10, 12)))
    with pytest.raises(CheckFailed, match="new_share"):
        feed.publish(garbage, **{**ACCEPTS, "accepted_checks": ("changed_share",), "run_id": "another-check"})
    record = feed.publish(garbage, run_id="by-hand", **ACCEPTS)
    assert feed.rows() == expected(*rows(4, CLEAN, GARBAGE))
    assert (record.reason, deliveries.held_deliveries(feed), feed.state.deliveries("held")) == ("a new region", [], [])
    accepted = feed.state.checks(record.attempt)["new_share"]
    assert (accepted["level"], accepted["next_step"]) == ("warn", "accepted by the operator: a new region")
    assert deliveries.waiting_deliveries(feed) == [waits]


def test_of_several_deliveries_the_newest_is_tried_alone_and_if_that_is_stopped_too_all_are_held(
    feed: FeedOnStandIn,
) -> None:
    garbage, clean = feed.land(4, rows(4, CLEAN, GARBAGE)), feed.land(5, rows(5, CLEAN))
    stop(feed, clean)
    assert deliveries.held_deliveries(feed) == [garbage]
    feed.publish(clean)
    assert feed.rows() == expected(*rows(5, CLEAN))
    names = [feed.land(number, rows(number, CLEAN, GARBAGE)) for number in (6, 7)]
    stop(feed, names[-1])
    stop(feed, names[-1])
    assert deliveries.held_deliveries(feed) == [garbage, *names]
    corrected = feed.land(7, rows(7, CLEAN))
    feed.publish(corrected)
    assert feed.rows() == expected(*rows(7, CLEAN))
    assert deliveries.held_deliveries(feed) == [garbage, names[0]]


def test_a_held_correction_does_not_bring_back_what_it_replaces(feed: FeedOnStandIn) -> None:
    first = feed.land(4, rows(4, CLEAN, range(10, 12)))
    stop(feed, feed.land(4, rows(4, CLEAN, GARBAGE)))
    assert feed.nothing_to_do(first)


def test_a_check_on_the_surroundings_holds_no_delivery(feed: FeedOnStandIn) -> None:
    name = feed.land(4, rows(4, CLEAN))
    run = runs.publish(feed, name).until("load")
    feed.query(f"DELETE FROM .{feed.feed.staging} WHERE product_id = 1")
    with pytest.raises(CheckFailed, match="staging_rows"):
        run.step("check")
    run.end()
    assert deliveries.held_deliveries(feed) == []
    feed.publish(name)
    assert feed.rows() == expected(*rows(4, CLEAN))


def test_accepting_runs_no_second_dedup_job(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    feed.dedup = NoJob()
    runs.publish(feed, garbage, run_id="not-approved", **ACCEPTS).until("check").end()
    run = runs.publish(feed, garbage, run_id="approved", **ACCEPTS).until("check")
    assert f"from delivery {garbage}" in (run.approval_text or "")
    record = run.finish()
    assert [delivery.name for delivery in record.deliveries] == [garbage]
    assert record.new_rows == 40
    assert record.cost
    assert record.cost.spark_usd == 0.0
    operations.delete_obsolete(feed)
    feed.dedup = FakeDedupJob(feed.storage)
    feed.publish(feed.land(5, rows(5, range(9), GARBAGE)))  # on top of the files that were used again
    assert feed.rows() == expected(*rows(5, range(9), GARBAGE), row(4, 9))


@pytest.mark.parametrize("difference", ["parent", "settings", "files"])
def test_the_job_runs_again_if_its_input_differs(feed: FeedOnStandIn, difference: str) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    if difference == "parent":
        feed.publish(feed.land(5, rows(5, CLEAN)))
    elif difference == "settings":
        feed.configure(dedup={"exact": True})
    else:
        feed.state.lose("data/00000002")
    feed.publish(garbage, **ACCEPTS)
    winner = 5 if difference == "parent" else 4
    assert feed.rows() == expected(*rows(winner, CLEAN), *rows(4, GARBAGE))


def test_page_and_alert_say_what_is_held_until_a_person_discards_it(
    feed: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dog = Watchdog(feed, TaskApi(monkeypatch), monkeypatch, caplog)
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    clean = feed.land(5, rows(5, CLEAN))
    stop(feed, clean, run_id="both")
    feed.publish(clean)
    titles = dog.check()
    assert f"ALERT: publish_failed-held-{garbage}" in titles
    incidents = feed.state.read("incidents.json")["records"]
    (incident,) = [found["incident"] for found in incidents if found["incident"]["kind"] == "publish_failed"]
    assert (incident["subject"], incident["run_id"]) == (f"held-{garbage}", "both")
    assert f"delivery [{garbage}] of snapshot 4 is held" in incident["what"]
    assert f"together with [{clean}]" in incident["what"]
    verdict = feed.state_of("_freshness").read(f"{feed.feed.feed}.json")
    assert verdict["readers_see"].startswith("snapshot 5 (generation ")
    assert [found["kind"] for found in verdict["incidents"]] == ["publish_failed"]
    assert "new_share" in incident["what"]
    (held,) = operations.page(feed)["held"]
    assert (held["snapshot_id"], held["run_id"]) == ("4", "both")
    (failed,) = [found for found in held["failed"] if found["check"] == "new_share"]
    assert failed["examples"] == ["product_id=100", "product_id=101", "product_id=102"]
    # The record outlives an erasure of the keys, the results of the checks do not.
    assert "product_id" not in (feed.state.text(feed.state.names("held/")[0]) or "")

    deliveries.discard_delivery(feed, garbage, reason="garbage")
    assert (deliveries.held_deliveries(feed), feed.state.deliveries("refused")) == ([], [garbage])
    assert feed.state.read(f"refused/{garbage}.json")["reason"] == "discarded by a person: garbage"
    with pytest.raises(ConfigurationError, match="not held"):
        deliveries.discard_delivery(feed, garbage)
    dog.check(later=timedelta(hours=1))
    assert [found for found in feed.state.read("incidents.json")["records"] if found["ended_at"] is None] == []


# -- Approval --


class Waiting:
    """A replay of snapshot 4 that waits for approval. `text`: what whoever approves reads."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world
        self.name = world.land(4, rows(4, CLEAN, GARBAGE))
        self.run = runs.publish(world, self.name, run_id="by-hand", **ACCEPTS).until("check")
        self.text = self.run.wait_for_approval() or ""


@pytest.fixture
def waiting(feed: FeedOnStandIn) -> Waiting:
    return Waiting(feed)


def test_whoever_approves_reads_evidence_reason_and_consequence_and_it_is_published(waiting: Waiting) -> None:
    world, run = waiting.world, waiting.run
    assert "Reason given: a new region" in waiting.text
    assert "| new_share | 40 of 50 rows new (80.0000%)" in waiting.text
    assert "Readers see generation 1 until you approve" in waiting.text
    assert world.rows() == expected(*rows(3, CLEAN))
    run.approve()
    arrived = world.land(5, rows(5, CLEAN))
    with pytest.raises(LeaseHeld):
        world.resolve(arrived, run_id="automatic")
    record = run.finish()
    assert record.lag_s
    assert {"checks", "approval", "swap"} <= set(record.phases)
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    assert world.rows() == expected(*rows(4, CLEAN, GARBAGE))


def test_a_rejected_one_changes_nothing_and_frees_the_lease(waiting: Waiting) -> None:
    assert not waiting.run.end()
    assert (waiting.world.state.lease, waiting.world.rows()) == (None, expected(*rows(3, CLEAN)))
    ended = waiting.world.state.ledger()[-1]
    assert (ended["kind"], ended["outcome"], ended["stage"]) == ("publish", "failed", "check")
    assert "waited for approval" in ended["reason"]


@pytest.mark.parametrize("first", ["an arrival", "a rollback"])
def test_who_wants_the_lease_goes_first_and_the_approval_then_comes_too_late(waiting: Waiting, first: str) -> None:
    world = waiting.world
    newer = rows(5, CLEAN)
    if first == "an arrival":
        record = world.publish(world.land(5, newer), run_id="automatic")
        assert [d.snapshot_id for d in record.deliveries] == [5]
    else:
        world.roll_back(1)
        newer = rows(3, CLEAN)
    assert world.rows() == expected(*newer)
    with pytest.raises(ApprovalTooLate, match="Clear the run from its first task"):
        waiting.run.approve()
    ended = world.state.ledger()[1]
    assert (ended["run_id"], ended["outcome"]) == ("by-hand", "failed")
    world.publish(waiting.name, run_id="by-hand", **ACCEPTS)
    assert len(world.rows()) == 50


def test_an_approval_and_an_arrival_at_one_time_never_both_have_the_lease(waiting: Waiting) -> None:
    world, run = waiting.world, waiting.run
    with failing_writes("CURRENT", before=run.approve), pytest.raises(LostRace):
        operations.recover_lease(world)
    run.wait_for_approval()
    with failing_writes("CURRENT", before=lambda: operations.recover_lease(world)), pytest.raises(ApprovalTooLate):
        run.approve()


def test_of_two_replays_in_one_second_the_first_is_approved_and_the_second_names_it(waiting: Waiting) -> None:
    """Whoever approves the first must not be told "approved" while the second has ended it."""
    world, second = waiting.world, {**ACCEPTS, "run_id": "second"}
    with pytest.raises(ConfigurationError, match=r"\[by-hand\].*waits for an approval.*Answer it first"):
        world.resolve(waiting.name, **second)
    with pytest.raises(ConfigurationError, match="cannot be replayed"):  # it makes nobody give way
        world.resolve(waiting.name, **{**second, "dates": ()})
    waiting.run.approve()
    with pytest.raises(LeaseHeld):
        world.resolve(waiting.name, **second)
    waiting.run.finish()
    world.publish(waiting.name, **second)
    assert world.rows() == expected(*rows(4, CLEAN, GARBAGE))


def test_a_replay_goes_on_when_the_run_that_waited_is_dead_and_nobody_is_asked_if_no_check_failed(
    waiting: Waiting,
) -> None:
    world = waiting.world
    world.running.clear()
    run = runs.publish(world, waiting.name, run_id="second", **{**ACCEPTS, "accepted_checks": ("survivor_share",)})
    with pytest.raises(CheckFailed):
        run.finish()
    run.end()
    world.configure(checks={"max_new_share": 1.0})
    run = runs.publish(world, waiting.name, run_id="third", **ACCEPTS).until("check")
    assert run.approval_text is None
    run.finish()
    assert world.rows() == expected(*rows(4, CLEAN, GARBAGE))
