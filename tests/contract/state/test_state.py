"""What is stored in landing and in the state bucket: markers, conditional writes, CURRENT, rows that wait."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import (
    ConfigurationError,
    ContractViolation,
    FeedHeldElsewhere,
    LeaseHeld,
    LostRace,
)
from dedup_clone.contract.records import to_json
from dedup_clone.orchestration.watch.notice_delivery import DeliveryTrigger
from dedup_clone.state import arrivals
from dedup_clone.state.arrivals import LandingWatch
from dedup_clone.state.current import CurrentFile, Retirement, TargetAction
from dedup_clone.state.ledger import ReportingBacklog
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.lost_answers import losing_answers

Clients = tuple[Storage, BigQuery]
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.fixture
def own(clients: Clients) -> ObjectStore:
    """A bucket that no other test uses."""
    name = f"state-{uuid.uuid4().hex}"
    clients[0].create_bucket(name)
    return ObjectStore(clients[0], name)


# -- Markers in landing: which are deliveries, and which are invalid and reported once --

GREATEST_ID = 2**63 - 1
NO_ID = "names no snapshot id"


def put(world: FeedOnStandIn, *names: str) -> None:
    """Upload empty objects to landing. `names`: below the feed's folder."""
    for name in names:
        world.storage.bucket(world.places.landing).blob(f"{world.feed.feed}/{name}").upload_from_string(b"")


def test_markers_are_deliveries_in_the_order_of_their_ids(world: FeedOnStandIn) -> None:
    for id_ in ("10", "9", "0", str(GREATEST_ID)):
        put(world, f"snapshot_id={id_}/_SUCCESS")
    put(world, "snapshot_id=8/a.parquet")
    listing = world.services.landing.list_markers()
    assert [m.delivery.snapshot_id for m in listing.markers] == [0, 9, 10, GREATEST_ID]
    assert listing.invalid == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("snapshot_id=abc/_SUCCESS", NO_ID),
        ("snapshot_id=-5/_SUCCESS", NO_ID),
        (f"snapshot_id={GREATEST_ID + 1}/_SUCCESS", NO_ID),
        ("snapshot_id=007/_SUCCESS", NO_ID),
        ("snapshot_id=/_SUCCESS", NO_ID),
        ("snapshot_id=1.0/_SUCCESS", NO_ID),
        ("snapshot_id=１/_SUCCESS", NO_ID),
        ("snapshot=7/_SUCCESS", NO_ID),
        ("7/_SUCCESS", NO_ID),
        ("Snapshot_id=7/_SUCCESS", NO_ID),
        ("snapshot_id=3/_SUCCESS/part-0", "it is a folder, expected an object"),
        ("_SUCCESS", "it lies in no snapshot's folder"),
    ],
)
def test_a_wrong_marker_starts_nothing_and_is_logged_once_until_it_is_written_again(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(arrivals.log, "warning", lambda text, *values: warned.append(text % values))
    put(world, f"{name}.parquet", name, "snapshot_id=1/_SUCCESS", "_temporary/_SUCCESS", ".old/_SUCCESS")
    watch = LandingWatch(world.services.landing, world.services.arrivals, polls_per_full_listing=2)
    for _ in range(2):
        assert [m.delivery.snapshot_id for _ in range(3) for m in watch.new_markers()] == [1, 1, 1]
        text = warned.pop()
        assert f"{world.feed.feed}/{name}] starts no publish: " in text
        assert problem in text
        assert warned == []
        put(world, name)
    assert world.state.deliveries("refused") == []


def test_the_trigger_warns_of_an_invalid_marker_and_goes_on_to_the_next_delivery(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = DeliveryTrigger(
        connection="none",
        landing_bucket=world.places.landing,
        state_bucket=world.places.state,
        feed=world.feed.feed,
        prefix=world.feed.feed,
        marker="_SUCCESS",
        interval_s=0.01,
        limit_s=60,
    )
    watch = LandingWatch(world.services.landing, world.services.arrivals, polls_per_full_listing=1)
    monkeypatch.setattr(trigger, "_open", lambda: watch)
    put(world, "snapshot_id=abc/_SUCCESS")
    warned: list[str] = []

    def warn(text: str, *values: Any) -> None:
        """The next delivery comes when the warning was given."""
        warned.append(text % values)
        put(world, "snapshot_id=4/_SUCCESS")

    async def first_event() -> str:
        async for event in trigger.run():
            return str(event.payload)
        raise AssertionError("the trigger ended without an event")

    monkeypatch.setattr(arrivals.log, "warning", warn)
    assert asyncio.run(first_event()).startswith("found markers of deliveries [4-")
    assert [NO_ID in text for text in warned] == [True]


# -- Conditional writes: one belongs to the process whose write is stored, also if the answer to it was lost --


def test_a_write_that_was_stored_but_answered_with_503_is_the_callers_own(own: ObjectStore, clients: Clients) -> None:
    with losing_answers(clients[0]) as client:
        store = ObjectStore(client, own.bucket)
        assert store.create("record", "first")
        (created,) = store.stat(["record"])
        replaced = store.replace("record", "second", expected_object_generation=created.object_generation)
        found = store.read("record")
        assert found is not None
        assert (found.text, found.object_generation) == ("second", replaced)
        store.put("record", "third")
        (last,) = store.stat(["record"])
        assert store.delete("record", expected_object_generation=last.object_generation)
    assert store.read("record") is None


def test_of_two_writers_of_equal_text_only_the_first_believes_that_it_wrote(own: ObjectStore, clients: Clients) -> None:
    assert own.create("record", "same")
    (created,) = own.stat(["record"])
    with losing_answers(clients[0]) as client:
        second = ObjectStore(client, own.bucket)
        assert not second.create("record", "same")
        own.replace("record", "next", expected_object_generation=created.object_generation)
        with pytest.raises(LostRace, match="another run wrote it"):
            second.replace("record", "next", expected_object_generation=created.object_generation)


def test_a_change_is_made_to_what_another_process_wrote_meanwhile(own: ObjectStore) -> None:
    found = list[Any]()

    def change(names: dict[str, int] | None) -> dict[str, int] | None:
        found.append(names)
        if len(found) < 3:
            own.put("record", to_json({"other": len(found)}))
        return None if names == {"other": 2, "own": 1} else {**(names or {}), "own": 1}

    own.change_record(dict, "record", change)
    assert found == [None, {"other": 1}, {"other": 2}]
    own.change_record(dict, "record", change)  # which changes nothing by now
    stored = own.read_record(dict, "record")
    assert (len(found), stored) == (4, {"other": 2, "own": 1})


def test_a_record_that_others_write_all_the_time_is_a_lost_race(own: ObjectStore) -> None:
    calls = list[int]()

    def change(_: dict[str, int] | None) -> dict[str, int]:
        calls.append(0)
        own.put("record", to_json({"other": len(calls)}))
        return {"own": 1}

    with pytest.raises(LostRace, match="another run wrote it"):
        own.change_record(dict, "record", change)
    assert len(calls) == 5


# -- CURRENT: a run gets the lease only for the generation on which it decided, and never of a retired feed --


def test_a_refused_run_changes_nothing(own: ObjectStore) -> None:
    current = CurrentFile(own, "feed")
    run: dict[str, Any] = {"dag_id": "dag", "run_id": "run", "now": NOW}
    first = current.acquire_lease("here", None, Kind.PUBLISH, **run)
    assert (first.parent, first.generation) == (None, 1)
    with pytest.raises(LeaseHeld):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)
    current.commit(first, "digest")
    before = current.read()
    with pytest.raises(LostRace, match=r"Generation \[1\] was committed meanwhile"):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)
    with pytest.raises(FeedHeldElsewhere):
        current.acquire_lease("there", 1, Kind.PUBLISH, **run)
    assert current.read() == before
    last = current.acquire_lease("here", 1, Kind.RETIRE, **run)
    current.retire(last.attempt, Retirement(NOW, "run", "a test", TargetAction.DROP, last.attempt, 1))
    assert (current.read().generation, current.read().intent, current.read().last_generation) == (None, None, 2)
    with pytest.raises(ConfigurationError, match="was retired at 2026-06-15 12:00 UTC by run"):
        current.acquire_lease("here", None, Kind.PUBLISH, **run)


# -- The rows that the ledger table lacks --


@pytest.mark.parametrize("text", ['{"reason": "\udcff"}', '{"reason', "[1]"], ids=["not_utf8", "cut_off", "no_object"])
def test_a_row_that_no_load_can_read_is_named(own: ObjectStore, text: str) -> None:
    backlog = ReportingBacklog(own)
    backlog.add_row("feed", "whole", {"reason": "Größe"})
    backlog.add_row("feed2", "other", {})
    assert backlog.read_row("feed", "whole") == {"reason": "Größe"}
    assert backlog.read_row("feed", "gone") is None
    assert [row.attempt for row in backlog.waiting("feed")] == ["whole"]
    assert [(row.feed, row.attempt) for row in backlog.waiting()] == [("feed", "whole"), ("feed2", "other")]
    own.put("_reporting/ledger/feed/damaged.json", text)
    with pytest.raises(ContractViolation, match=r"ledger/feed/damaged\.json.*restore a former version"):
        backlog.read_row("feed", "damaged")
