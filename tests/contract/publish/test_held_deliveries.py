"""A delivery that a check on the data stopped is held: later ones are published without it, and a person decides.

A replay that accepts the failed check shows what it found, and acquires the lease after the approval.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LeaseHeld
from testkit import deliveries, operations, runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import Watchdog
from testkit.dedup_job import DedupInThisProcess
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, Row, expected, row

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
        feed.publish(garbage, replay=True, reason="nothing is accepted", run_id="accepts-nothing")
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
    (third, *_) = feed.state.deliveries("arrivals")
    feed.publish(third, replay=True, reason="once more", run_id="by-hand")
    assert feed.rows() == expected(*rows(3, CLEAN))


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
    runs.publish(feed, garbage, run_id="died", **ACCEPTS).until("check").end()
    record = runs.publish(feed, garbage, run_id="approved", **ACCEPTS).finish()
    assert [delivery.name for delivery in record.deliveries] == [garbage]
    assert record.new_rows == 40
    assert record.cost
    assert record.cost.spark_usd == 0.0
    operations.delete_obsolete(feed)
    feed.dedup = DedupInThisProcess(feed.storage)
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


@pytest.mark.parametrize("moved", [False, True], ids=["same parent", "another parent"])
def test_the_page_offers_the_checks_that_stopped_the_last_replay(feed: FeedOnStandIn, moved: bool) -> None:
    garbage = feed.land(4, [row(4, product, 20 + (product < 3)) for numbers in (CLEAN, GARBAGE) for product in numbers])
    stop(feed, garbage, run_id="first")
    if moved:
        feed.publish(feed.land(2, rows(2, CLEAN, range(200, 201))))
    feed.configure(checks={"max_changed_share": 0.01})
    stop(feed, garbage, **{**ACCEPTS, "run_id": "second"})
    (held,) = operations.page(feed)["held"]
    failed = [found["check"] for found in held["failed"]]
    assert (held["run_id"], sorted(failed)) == ("second", ["changed_share", "new_share"])
    feed.dedup = NoJob()
    feed.publish(garbage, run_id="third", **{**ACCEPTS, "accepted_checks": tuple(failed)})
    assert len(feed.rows()) == 50 + moved


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
    named = [int(key.split(",")[0].removeprefix("product_id=")) for key in failed["examples"]]
    assert (len(named), set(named) <= set(GARBAGE)) == (3, True)
    # The record outlives an erasure of the keys, the results of the checks do not.
    assert "product_id" not in (feed.state.text(feed.state.names("held/")[0]) or "")

    deliveries.discard_delivery(feed, garbage, reason="garbage")
    assert (deliveries.held_deliveries(feed), feed.state.deliveries("refused")) == ([], [garbage])
    assert feed.state.read(f"refused/{garbage}.json")["reason"] == "discarded by a person: garbage"
    with pytest.raises(ConfigurationError, match="not held"):
        deliveries.discard_delivery(feed, garbage)
    dog.check(later=timedelta(hours=1))
    assert [found for found in feed.state.read("incidents.json")["records"] if found["ended_at"] is None] == []


# -- Approval: before the lease, with the evidence of the attempt that a check stopped --


@pytest.fixture
def garbage(feed: FeedOnStandIn) -> str:
    """A delivery that a check stopped."""
    name = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, name, run_id="stopped")
    return name


def test_whoever_approves_reads_the_evidence_and_what_the_publish_would_do(feed: FeedOnStandIn, garbage: str) -> None:
    run = runs.publish(feed, garbage, run_id="by-hand", **ACCEPTS).until("preview")
    assert f"what a publish of delivery {garbage} would do" in run.text
    assert "| new_share | 40 of 50 rows new (80.0000%" in run.text
    assert "Readers see generation 1 until the swap. If you reject this, nothing changes." in run.text
    assert "The checks stopped run [stopped], on top of generation 1." in run.text
    assert f"| included | {garbage} |" in run.text
    assert (feed.state.lease, feed.rows()) == (None, expected(*rows(3, CLEAN)))
    record = run.finish()
    assert record.lag_s
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    assert feed.rows() == expected(*rows(4, CLEAN, GARBAGE))


@pytest.mark.parametrize("accepted", [("changed_share",), ("new_share", "changed_share")])
def test_only_a_failure_that_can_be_shown_is_accepted(
    feed: FeedOnStandIn, garbage: str, accepted: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError, match=rf"\[{garbage}\] has not failed \[changed_share\]"):
        runs.publish(feed, garbage, run_id="by-hand", **{**ACCEPTS, "accepted_checks": accepted}).until("preview")


def test_a_delivery_that_would_be_refused_is_not_shown_for_approval(feed: FeedOnStandIn, garbage: str) -> None:
    feed.overwrite(4, f"date={TODAY}/part-0.parquet", b"")
    with pytest.raises(ConfigurationError, match=rf"\[{garbage}\] would be refused: .*part-0\.parquet"):
        runs.publish(feed, garbage, run_id="by-hand", **ACCEPTS).until("preview")


def test_the_failure_of_a_whole_delivery_is_not_accepted_for_some_of_its_dates_nor_the_reverse(
    feed: FeedOnStandIn, garbage: str
) -> None:
    some = {**ACCEPTS, "dates": (TODAY,)}
    with pytest.raises(ConfigurationError, match="has not failed"):
        runs.publish(feed, garbage, run_id="some", **some).until("preview")
    stop(feed, garbage, replay=True, dates=(TODAY,), reason="this date is right", run_id="dates")
    run = runs.publish(feed, garbage, run_id="some", **some).until("preview")
    assert "The checks stopped run [dates]" in run.text
    whole = runs.publish(feed, garbage, run_id="whole", **ACCEPTS).until("preview")
    assert "The checks stopped run [stopped]" in whole.text
    run.finish()
    assert feed.rows() == expected(*rows(4, CLEAN, GARBAGE))


@pytest.mark.parametrize("first", ["an arrival", "a rollback"])
def test_what_goes_live_before_the_lease_makes_an_approval_void(feed: FeedOnStandIn, garbage: str, first: str) -> None:
    run = runs.publish(feed, garbage, run_id="by-hand", **ACCEPTS).until("preview")
    if first == "an arrival":
        feed.publish(feed.land(5, rows(5, CLEAN)), run_id="automatic")
        seen = rows(5, CLEAN)
    else:
        feed.roll_back(1)
        seen = rows(3, CLEAN)
    with pytest.raises(ConfigurationError, match=r"\[3\] of .* is live by now, expected \[1\], which the preview"):
        run.until("resolve")
    assert (feed.state.lease, feed.rows()) == (None, expected(*seen))
    again = runs.publish(feed, garbage, run_id="again", **ACCEPTS).until("preview")
    assert "on top of generation 1; on top of generation 3 they may find something else." in again.text
    again.finish()
    assert len(feed.rows()) == 50


def test_an_approved_replay_waits_for_the_lease_and_one_whose_run_died_is_repeated(
    feed: FeedOnStandIn, garbage: str
) -> None:
    first = runs.publish(feed, garbage, run_id="first", **ACCEPTS).until("preview")
    second = runs.publish(feed, garbage, run_id="second", **ACCEPTS).until("preview")
    first.until("load")
    feed.running.add("first")
    with pytest.raises(LeaseHeld):
        second.step("resolve")
    feed.running.clear()
    second.finish()
    assert feed.rows() == expected(*rows(4, CLEAN, GARBAGE))
    assert feed.state.outcomes() == [(1, "published"), (2, "failed"), (3, "failed"), (4, "published")]
