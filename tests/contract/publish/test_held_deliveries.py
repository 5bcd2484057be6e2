"""A delivery that a check on the data stopped is held: later ones are published without it, and a person decides."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dedup_clone.contract.errors import CheckFailed, ConfigurationError
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.page.feed_view import index_view
from dedup_clone.publish.approval import approval_text
from dedup_clone.publish.prune import prune
from dedup_clone.publish.records.held_deliveries import discard_held
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.index import IndexFile
from dedup_clone.state.layout import generation_of
from testkit.fake_dedup_job import FakeDedupJob
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from tests.contract.feed_state_reader import read_state

NOW = datetime.now(UTC)
ACCEPTS = {"replay": True, "accepted_checks": ("new_share",), "reason": "a new region"}
CLEAN = range(10)
GARBAGE = range(100, 140)


class NoJob:
    """Takes the place of the dedup job where none may run."""

    def run(self, request_uri: str) -> None:
        raise AssertionError(f"a dedup job ran for {request_uri}")


def rows(snapshot_id: int, *products: range) -> list[dict[str, object]]:
    return [row(snapshot_id, product) for numbers in products for product in numbers]


@pytest.fixture
def feed(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed with the default checks, whose snapshot 3 is live."""
    world.feed = world.feed.model_copy(update={"checks": CheckSettings()})
    world.publish(world.land(3, rows(3, CLEAN)))
    return world


def stop(world: FeedOnStandIn, name: str, **changes: object) -> str:
    """Publish until a check fails, and end the attempt as the DAG does. Returns the error's text."""
    with pytest.raises(CheckFailed) as error:
        world.publish(name, **changes)
    end(world)
    return str(error.value)


def end(world: FeedOnStandIn) -> None:
    intent = world.services.current.read().intent
    assert intent is not None
    assert not commit_or_discard(world.services, intent)


def test_a_clean_snapshot_is_published_without_the_one_that_a_check_stopped(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    assert "new_share" in stop(feed, garbage)
    feed.publish(feed.land(5, rows(5, CLEAN)))
    assert feed.rows() == expected(*rows(5, CLEAN))


def held(world: FeedOnStandIn) -> list[str]:
    generation = world.services.current.read().generation
    live = None if generation is None else world.services.manifests.read(generation)
    return [delivery.name for delivery in find_backlog(world.services, live).held]


def test_a_replay_publishes_a_held_delivery_and_only_that_one(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    assert isinstance(resolve(feed.services, feed.publish_request(garbage)), str)  # its own run was cleared
    feed.land(5, rows(5, CLEAN, range(10, 12)))
    feed.publish(garbage, **ACCEPTS)
    assert feed.rows() == expected(*rows(4, CLEAN, GARBAGE))
    assert (held(feed), feed.services.arrivals.held()) == ([], [])


def test_of_several_deliveries_the_newest_is_tried_alone(feed: FeedOnStandIn) -> None:
    garbage, clean = feed.land(4, rows(4, CLEAN, GARBAGE)), feed.land(5, rows(5, CLEAN))
    stop(feed, clean)
    assert held(feed) == [garbage]
    feed.publish(clean)
    assert feed.rows() == expected(*rows(5, CLEAN))
    assert held(feed) == [garbage]


def test_if_the_newest_alone_is_stopped_too_all_are_held(feed: FeedOnStandIn) -> None:
    names = [feed.land(number, rows(number, CLEAN, GARBAGE)) for number in (4, 5, 6)]
    stop(feed, names[-1])
    assert held(feed) == names[:-1]
    stop(feed, names[-1])
    assert held(feed) == names
    assert feed.rows() == expected(*rows(3, CLEAN))


def test_a_check_on_the_surroundings_holds_no_delivery(feed: FeedOnStandIn) -> None:
    name = feed.land(4, rows(4, CLEAN))
    spec = feed.resolve(name)
    feed.deduplicate(spec)
    feed.load(spec)
    feed.bigquery.query_and_wait(f"DELETE FROM warehouse.{feed.feed.staging} WHERE product_id = 1")
    with pytest.raises(CheckFailed, match="staging_rows"):
        feed.check(spec)
    end(feed)
    assert held(feed) == []
    feed.publish(name)
    assert feed.rows() == expected(*rows(4, CLEAN))


def test_a_corrected_delivery_replaces_a_held_one(feed: FeedOnStandIn) -> None:
    stop(feed, feed.land(4, rows(4, CLEAN, GARBAGE)))
    feed.publish(feed.land(4, rows(4, CLEAN)))
    assert feed.rows() == expected(*rows(4, CLEAN))
    assert held(feed) == []


def test_a_held_correction_does_not_bring_back_what_it_replaces(feed: FeedOnStandIn) -> None:
    first = feed.land(4, rows(4, CLEAN, range(10, 12)))
    stop(feed, feed.land(4, rows(4, CLEAN, GARBAGE)))
    assert isinstance(resolve(feed.services, feed.publish_request(first)), str)


def test_a_rollback_excludes_no_held_delivery(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    feed.publish(feed.land(5, rows(5, CLEAN)))
    feed.roll_back(1)
    assert held(feed) == [garbage]
    assert [d.snapshot_id for d in feed.services.manifests.read(4).excluded] == [5]


def test_a_person_discards_a_held_delivery(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    (delivery,) = feed.services.arrivals.held()
    discard_held(feed.services, delivery, run_id="by-hand", reason="a test of the producer")
    assert held(feed) == []
    assert feed.services.arrivals.refusal(delivery).reason == "discarded by a person: a test of the producer"
    with pytest.raises(ConfigurationError, match="not held"):
        discard_held(feed.services, delivery, run_id="by-hand", reason="again")
    feed.publish(feed.land(5, rows(5, CLEAN)))
    assert feed.rows() == expected(*rows(5, CLEAN))


def test_accepting_runs_no_second_dedup_job(feed: FeedOnStandIn) -> None:
    garbage = feed.land(4, rows(4, CLEAN, GARBAGE))
    stop(feed, garbage)
    feed.dedup = NoJob()
    spec, _ = feed.publish_to_check(garbage, run_id="not-approved", **ACCEPTS)
    end(feed)
    spec, checked = feed.publish_to_check(garbage, run_id="approved", **ACCEPTS)
    assert f"from delivery {garbage}" in approval_text(feed.services, spec)
    assert f"of delivery [{garbage}]" in approval_text(feed.services, spec)
    feed.swap(spec, checked)
    record = feed.commit(spec)
    assert [delivery.name for delivery in record.deliveries] == [garbage]
    assert (record.new_rows, record.cost.spark_usd) == (40, 0.0)
    prune(feed.services)
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
        dedup = feed.feed.dedup.model_copy(update={"exact": True})
        feed.feed = feed.feed.model_copy(update={"dedup": dedup})
    else:
        (attempt,) = [name for name in feed.services.store.folders(feed.services.layout.data) if "00000002" in name]
        feed.services.store.delete_prefix(attempt)
    feed.publish(garbage, **ACCEPTS)
    winner = 5 if difference == "parent" else 4
    assert feed.rows() == expected(*rows(winner, CLEAN), *rows(4, GARBAGE))


def test_the_next_publish_deletes_the_files_of_a_held_delivery(feed: FeedOnStandIn) -> None:
    stop(feed, feed.land(4, rows(4, CLEAN, GARBAGE)))
    assert len(feed.services.store.folders(feed.services.layout.data)) == 2
    feed.publish(feed.land(5, rows(5, CLEAN)))
    prune(feed.services)
    assert [generation_of(f) for f in feed.services.store.folders(feed.services.layout.data)] == [1, 3]


def test_page_headline_and_incident_say_what_is_held_and_why_until_it_is_decided(feed: FeedOnStandIn) -> None:
    garbage, clean = feed.land(4, rows(4, CLEAN, GARBAGE)), feed.land(5, rows(5, CLEAN))
    stop(feed, clean, run_id="both")
    feed.publish(clean)
    state = read_state(feed.services)
    (incident,) = find_incidents(NOW, state)
    assert (incident.kind, incident.subject, incident.run_id) == ("delivery_held", garbage, "both")
    assert f"delivery [{garbage}] of snapshot 4 is held" in incident.what
    assert f"of delivery [{garbage}] and [{clean}]" in incident.what
    assert f"together with [{clean}]" in incident.what
    headline = evaluate(NOW, state).headline
    assert headline.startswith("Readers see snapshot 5; snapshot 4 is held: 80 % new rows, 20 % allowed")
    index = IndexFile(feed.services.store, feed.feed.feed).read().index
    view = index_view(index, None, NOW)
    assert view["stopped"] is None
    (card,) = view["held"]
    assert (card["snapshot_id"], card["run_id"], card["acceptable"]) == ("4", "both", True)
    assert card["failed"][0]["check"] == "new_share"
    assert [(a["snapshot_id"], a["state"]) for a in view["replayable"]] == [
        ("5", "published"),
        ("4", "held"),
        ("3", "published"),
    ]
    (delivery,) = feed.services.arrivals.held()
    discard_held(feed.services, delivery, run_id="by-hand", reason="garbage")
    assert find_incidents(NOW, read_state(feed.services)) == []


def test_examples_of_keys_are_on_the_page_but_not_in_the_record_which_outlives_an_erasure(feed: FeedOnStandIn) -> None:
    stop(feed, feed.land(4, [row(4, product, 99) for product in CLEAN]))
    index = IndexFile(feed.services.store, feed.feed.feed).read().index
    (card,) = index_view(index, None, NOW)["held"]
    assert card["failed"][0]["examples"] == ["product_id=0", "product_id=1", "product_id=2"]
    (info,) = feed.services.store.objects(feed.services.layout.held)
    assert "product_id" not in feed.services.store.read(info.name).text
