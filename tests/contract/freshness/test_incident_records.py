"""Incident records on a real object store: one message when an incident begins and one when it ends, whoever dies."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dedup_clone.freshness.incident import Incident, IncidentKind
from dedup_clone.freshness.incident_records import IncidentRecord, IncidentRecords
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.lost_answers import losing_answers
from tests.shared.freshness_states import NOW, incident

OVERDUE, AT_RISK, MISSED = incident(), incident(IncidentKind.SLA_AT_RISK), incident(IncidentKind.SLA_MISSED)
UNCHECKED = incident(IncidentKind.FEED_NOT_CHECKED)
FIRST, SECOND = (incident(IncidentKind.DELIVERY_REFUSED, name) for name in ("8-1", "9-1"))


class Bench:
    """Two notifiers; `sent` is what they sent, `broken` are those that fail."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.store = ObjectStore(world.storage, "state")
        self.feed = world.feed.feed
        self.sent: list[str] = []
        self.broken: set[str] = set()
        self.records_of_feed = self.checker()

    def checker(self) -> IncidentRecords:
        return IncidentRecords(self.store, self.feed, ("log", "mail"), self.notify)

    def notify(self, record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        reached = tuple(name for name in names if name not in self.broken)
        moment = "began" if record.ended_at is None else "ended"
        self.sent += [f"{name}: {record.incident.name} {moment}" for name in reached]
        return reached

    def update(self, *incidents: Incident, minute: float = 0) -> list[str]:
        """What a check sends that finds these incidents."""
        before = len(self.sent)
        self.records_of_feed.update(incidents, NOW + timedelta(minutes=minute))
        return self.sent[before:]

    def records(self) -> list[str]:
        return [info.name.rsplit("/", 1)[1] for info in self.store.objects(f"{self.feed}/incidents/")]


@pytest.fixture
def bench(world: FeedOnStandIn) -> Bench:
    return Bench(world)


def both(event: str) -> list[str]:
    return [f"log: {event}", f"mail: {event}"]


BEGAN, ENDED = "arrival_overdue began", "arrival_overdue ended"
# Each: checks one after the other, as minute, found incidents, whether mail works, and what is sent.
Check = tuple[float, list[Incident], bool, list[str]]
HISTORIES: dict[str, list[Check]] = {
    "it begins and ends once, and may begin again": [
        (0, [OVERDUE], True, both(BEGAN)),
        (5, [OVERDUE], True, []),
        (10, [], True, both(ENDED)),
        (15, [], True, []),
        (20, [OVERDUE], True, both(BEGAN)),
        (25, [], True, both(ENDED)),
    ],
    "other subjects are other incidents": [
        (0, [FIRST, SECOND], True, both("delivery_refused-8-1 began") + both("delivery_refused-9-1 began")),
        (1, [SECOND], True, both("delivery_refused-8-1 ended")),
        (2, [], True, both("delivery_refused-9-1 ended")),
    ],
    "a miss replaces its warning": [
        (0, [AT_RISK], True, both("sla_at_risk began")),
        (1, [MISSED], True, both("sla_missed began")),
        (2, [], True, both("sla_missed ended")),
    ],
    "a notifier that failed is tried again, and the other is not": [
        (0, [OVERDUE], False, [f"log: {BEGAN}"]),
        (1, [OVERDUE], True, [f"mail: {BEGAN}"]),
        (2, [OVERDUE], True, []),
        (3, [], False, [f"log: {ENDED}"]),
        (4, [], True, [f"mail: {ENDED}"]),
    ],
    "a notifier that was not reached is not sent the end": [
        (0, [OVERDUE], False, [f"log: {BEGAN}"]),
        (1, [], True, [f"log: {ENDED}"]),
    ],
    "an end is not retried for ever": [
        (0, [OVERDUE], True, both(BEGAN)),
        (1, [], False, [f"log: {ENDED}"]),
        (62, [], False, []),
        (63, [], True, []),
    ],
    "it returns while its end is retried": [
        (0, [OVERDUE], True, both(BEGAN)),
        (1, [], False, [f"log: {ENDED}"]),
        (2, [OVERDUE], True, [f"mail: {ENDED}"]),
        (3, [OVERDUE], True, both(BEGAN)),
        (5, [], True, both(ENDED)),
    ],
    "a broken notifier does not hold back the next alert to the others": [
        (0, [OVERDUE], True, both(BEGAN)),
        (5, [], False, [f"log: {ENDED}"]),
        (10, [OVERDUE], False, []),
        (15, [OVERDUE], False, [f"log: {BEGAN}"]),
        (20, [], True, [f"log: {ENDED}"]),
    ],
    "the retried end of a miss does not swallow the end of a later warning": [
        (0, [MISSED], True, both("sla_missed began")),
        (5, [], False, ["log: sla_missed ended"]),
        (10, [AT_RISK], False, ["log: sla_at_risk began"]),
        (15, [], False, ["log: sla_at_risk ended"]),
    ],
}


@pytest.fixture(params=[False, True], ids=["", "answers to writes are lost"])
def any_bench(world: FeedOnStandIn, request: pytest.FixtureRequest) -> Iterator[Bench]:
    if not request.param:
        yield Bench(world)
        return
    with losing_answers(world.storage) as world.storage:
        yield Bench(world)


@pytest.mark.parametrize("name", HISTORIES)
def test_who_is_told_of_what(any_bench: Bench, name: str) -> None:
    for minute, found, mail_works, expected in HISTORIES[name]:
        any_bench.broken = set() if mail_works else {"mail"}
        assert any_bench.update(*found, minute=minute) == expected, minute
    assert any_bench.records() == [] or not HISTORIES[name][-1][2]


def test_an_incident_that_is_checked_alone_is_sent_again_to_those_that_were_not_reached(bench: Bench) -> None:
    bench.update(incident(IncidentKind.WATCH_PAUSED))
    bench.sent.clear()
    for broken, sent in (({"mail"}, 1), (set(), 2), (set(), 2)):
        bench.broken = broken
        bench.records_of_feed.open_or_retry(UNCHECKED, NOW)
        assert bench.sent == both("feed_not_checked began")[:sent]
    assert len(bench.records()) == 2


def test_the_claim_of_a_process_that_died_expires_after_ten_minutes(bench: Bench) -> None:
    class Died(Exception):
        pass

    def die(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        raise Died

    dying = IncidentRecords(bench.store, bench.feed, ("log", "mail"), die)
    with pytest.raises(Died):
        dying.update([OVERDUE], NOW)
    assert bench.update(OVERDUE, minute=5) == []
    assert bench.update(OVERDUE, minute=10) == both(BEGAN)
    # Another one dies while it sends the end.
    record, generation = bench.records_of_feed._read_all()["arrival_overdue"]
    at = NOW + timedelta(minutes=20)
    assert bench.records_of_feed._write(dataclasses.replace(record, ended_at=at, claimed_at=at), generation) is not None
    assert bench.update(minute=30) == both(ENDED)
    assert bench.records() == []


def test_an_incident_that_is_being_notified_is_not_ended(bench: Bench) -> None:
    def other_check(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        assert bench.update(minute=5) == []
        return names

    IncidentRecords(bench.store, bench.feed, ("log", "mail"), other_check).update([OVERDUE], NOW)
    assert bench.update(minute=6) == both(ENDED)


def test_several_checks_at_once_notify_once(bench: Bench) -> None:
    def race(*incidents: Incident, minute: float) -> list[str]:
        before, barrier = len(bench.sent), threading.Barrier(6)

        def check() -> None:
            barrier.wait()
            bench.checker().update(incidents, NOW + timedelta(minutes=minute))

        threads = [threading.Thread(target=check) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(bench.sent[before:])

    assert race(OVERDUE, minute=0) == both(BEGAN)
    assert race(OVERDUE, minute=1) == []
    assert race(minute=5) == both(ENDED)
    assert bench.records() == []
