"""Incidents on a real object store: each told once, its end told once, whoever looks and whoever dies."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta

import pytest

from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.incident_files import CLAIM, END_TOLD_FOR, IncidentFiles, IncidentRecord
from dedup_clone.state.store import ObjectStore
from tests.contract.publish.feed_world import FeedWorld
from tests.unit.freshness.facts import NOW

MINUTE = timedelta(minutes=1)


def incident(kind: Kind = Kind.ARRIVAL_OVERDUE, subject: str = "") -> Incident:
    return Incident(kind, Severity.ALERT, NOW, "what", "readers", "next.", subject)


class Bench:
    """Two notifiers; `said` is what they said, `broken` are those that fail."""

    def __init__(self, world: FeedWorld) -> None:
        self.store = ObjectStore(world.storage, "state")
        self.feed = world.feed.feed
        self.said: list[tuple[str, str, str]] = []
        self.broken: set[str] = set()
        self.files = IncidentFiles(self.store, self.feed, ("log", "mail"), self.tell)

    def tell(self, record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        reached = tuple(name for name in names if name not in self.broken)
        moment = "began" if record.ended_at is None else "ended"
        self.said += [(name, moment, record.incident.name) for name in reached]
        return reached

    def settle(self, *incidents: Incident, after: timedelta = timedelta(0)) -> list[tuple[str, str, str]]:
        """What this look said."""
        before = len(self.said)
        self.files.settle(incidents, NOW + after)
        return self.said[before:]

    def records(self) -> list[str]:
        return [info.name.rsplit("/", 1)[1] for info in self.store.objects(f"{self.feed}/incidents/")]


@pytest.fixture
def bench(world: FeedWorld) -> Bench:
    return Bench(world)


def both(moment: str, name: str) -> list[tuple[str, str, str]]:
    return [("log", moment, name), ("mail", moment, name)]


def test_an_incident_is_told_once_and_its_end_once(bench: Bench) -> None:
    assert bench.settle(incident()) == both("began", "arrival_overdue")
    assert bench.settle(incident(), after=5 * MINUTE) == []
    assert bench.records() == ["arrival_overdue.json"]
    assert bench.settle(after=10 * MINUTE) == both("ended", "arrival_overdue")
    assert bench.settle(after=15 * MINUTE) == []
    assert bench.records() == []


def test_it_may_begin_again(bench: Bench) -> None:
    bench.settle(incident())
    bench.settle(after=5 * MINUTE)
    assert bench.settle(incident(), after=10 * MINUTE) == both("began", "arrival_overdue")


def test_incidents_with_subjects_are_told_apart(bench: Bench) -> None:
    refused = [incident(Kind.DELIVERY_REFUSED, name) for name in ("8-1", "9-1")]
    assert len(bench.settle(*refused)) == 4
    assert bench.settle(refused[1], after=MINUTE) == both("ended", "delivery_refused-8-1")


def test_a_missed_promise_takes_the_place_of_its_warning(bench: Bench) -> None:
    bench.settle(incident(Kind.PROMISE_AT_RISK))
    assert bench.settle(incident(Kind.PROMISE_MISSED), after=MINUTE) == both("began", "promise_missed")
    assert bench.records() == ["promise_missed.json"]
    assert bench.settle(after=2 * MINUTE) == both("ended", "promise_missed")


def test_one_recovery_when_the_miss_was_told_by_the_deadline_between_two_looks(bench: Bench) -> None:
    bench.settle(incident(Kind.PROMISE_AT_RISK))
    assert bench.files.open(incident(Kind.PROMISE_MISSED), NOW)
    assert not bench.files.open(incident(Kind.PROMISE_MISSED), NOW)
    assert bench.settle(after=5 * MINUTE) == both("ended", "promise_missed")
    assert bench.records() == []


def test_a_notifier_that_failed_is_told_later_and_the_others_not_again(bench: Bench) -> None:
    bench.broken = {"mail"}
    assert bench.settle(incident()) == [("log", "began", "arrival_overdue")]
    bench.broken = set()
    assert bench.settle(incident(), after=MINUTE) == [("mail", "began", "arrival_overdue")]
    assert bench.settle(incident(), after=2 * MINUTE) == []


def test_who_never_heard_of_it_does_not_hear_of_its_end(bench: Bench) -> None:
    bench.broken = {"mail"}
    bench.settle(incident())
    bench.broken = set()
    assert bench.settle(after=MINUTE) == [("log", "ended", "arrival_overdue")]


def test_an_end_that_could_not_be_told_is_told_later(bench: Bench) -> None:
    bench.settle(incident())
    bench.broken = {"mail"}
    assert bench.settle(after=MINUTE) == [("log", "ended", "arrival_overdue")]
    bench.broken = set()
    assert bench.settle(after=2 * MINUTE) == [("mail", "ended", "arrival_overdue")]
    assert bench.records() == []


def test_an_end_is_not_told_for_ever(bench: Bench) -> None:
    bench.settle(incident())
    bench.broken = {"mail"}
    bench.settle(after=MINUTE)
    bench.settle(after=2 * MINUTE + END_TOLD_FOR)
    assert bench.records() == []


def test_a_teller_that_died_is_replaced(bench: Bench) -> None:
    class Died(Exception):
        pass

    def die(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        raise Died

    dying = IncidentFiles(bench.store, bench.feed, ("log", "mail"), die)
    with pytest.raises(Died):
        dying.settle([incident()], NOW)
    assert bench.settle(incident(), after=CLAIM / 2) == []
    assert bench.settle(incident(), after=CLAIM) == both("began", "arrival_overdue")


def test_a_look_that_died_while_it_told_the_end_is_replaced(bench: Bench) -> None:
    bench.settle(incident())
    name = f"{bench.feed}/incidents/arrival_overdue.json"
    record, generation = bench.files._read_all()["arrival_overdue"]
    ended = dataclasses.replace(record, ended_at=NOW + MINUTE, claimed_at=NOW + MINUTE)
    assert bench.files._write("arrival_overdue", ended, generation) is not None
    assert bench.settle(after=MINUTE + CLAIM) == both("ended", "arrival_overdue")
    assert bench.store.read(name) is None


def test_an_incident_that_comes_back_while_its_end_is_told_is_told_afterwards(bench: Bench) -> None:
    bench.settle(incident())
    bench.broken = {"mail"}
    bench.settle(after=MINUTE)
    bench.broken = set()
    assert bench.settle(incident(), after=2 * MINUTE) == [("mail", "ended", "arrival_overdue")]
    assert bench.settle(incident(), after=3 * MINUTE) == both("began", "arrival_overdue")


def test_a_look_with_facts_older_than_the_incident_does_not_end_it(bench: Bench) -> None:
    bench.files.open(incident(Kind.PROMISE_MISSED), NOW + timedelta(seconds=5))
    assert bench.settle(after=timedelta(0)) == []
    assert bench.records() == ["promise_missed.json"]
    assert bench.settle(after=2 * MINUTE) == both("ended", "promise_missed")


def test_an_incident_that_is_being_told_is_not_ended(bench: Bench) -> None:
    def other_look(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        assert bench.settle(after=5 * MINUTE) == []
        return names

    IncidentFiles(bench.store, bench.feed, ("log", "mail"), other_look).settle([incident()], NOW)
    assert bench.settle(after=6 * MINUTE) == both("ended", "arrival_overdue")


@pytest.mark.parametrize("lookers", [2, 6])
def test_several_looks_at_once_tell_it_once(bench: Bench, lookers: int) -> None:
    def race(*incidents: Incident, after: timedelta) -> list[tuple[str, str, str]]:
        before, barrier = len(bench.said), threading.Barrier(lookers)

        def look() -> None:
            files = IncidentFiles(bench.store, bench.feed, ("log", "mail"), bench.tell)
            barrier.wait()
            files.settle(incidents, NOW + after)

        threads = [threading.Thread(target=look) for _ in range(lookers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(bench.said[before:])

    assert race(incident(), after=timedelta(0)) == both("began", "arrival_overdue")
    assert race(incident(), after=MINUTE) == []
    assert race(after=5 * MINUTE) == both("ended", "arrival_overdue")
    assert bench.records() == []
