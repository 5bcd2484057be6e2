"""Incident records on a real object store: one message when an incident begins and one when it ends, whoever dies."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta

import pytest

from dedup_clone.freshness.incident import Incident, IncidentKind
from dedup_clone.freshness.incident_records import CLAIM_LIFETIME, RECOVERY_RETRIED_FOR, IncidentRecord, IncidentRecords
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.lost_answers import losing_answers
from tests.shared.freshness_states import NOW
from tests.shared.incidents import incident

MINUTE = timedelta(minutes=1)


class Bench:
    """Two notifiers; `sent` is what they sent, `broken` are those that fail."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.store = ObjectStore(world.storage, "state")
        self.feed = world.feed.feed
        self.sent: list[tuple[str, str, str]] = []
        self.broken: set[str] = set()
        self.records_of_feed = IncidentRecords(self.store, self.feed, ("log", "mail"), self.notify)

    def notify(self, record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        reached = tuple(name for name in names if name not in self.broken)
        moment = "began" if record.ended_at is None else "ended"
        self.sent += [(name, moment, record.incident.name) for name in reached]
        return reached

    def update(self, *incidents: Incident, after: timedelta = timedelta(0)) -> list[tuple[str, str, str]]:
        """What this check sent."""
        before = len(self.sent)
        self.records_of_feed.update(incidents, NOW + after)
        return self.sent[before:]

    def records(self) -> list[str]:
        return [info.name.rsplit("/", 1)[1] for info in self.store.objects(f"{self.feed}/incidents/")]


@pytest.fixture
def bench(world: FeedOnStandIn) -> Bench:
    return Bench(world)


def both(moment: str, name: str) -> list[tuple[str, str, str]]:
    return [("log", moment, name), ("mail", moment, name)]


def test_an_incident_and_its_end_are_notified_once(bench: Bench) -> None:
    assert bench.update(incident()) == both("began", "arrival_overdue")
    assert bench.update(incident(), after=5 * MINUTE) == []
    assert bench.records() == ["arrival_overdue.json"]
    assert bench.update(after=10 * MINUTE) == both("ended", "arrival_overdue")
    assert bench.update(after=15 * MINUTE) == []
    assert bench.records() == []


def test_a_message_is_sent_at_once_and_once_although_the_answers_to_all_writes_are_lost(world: FeedOnStandIn) -> None:
    with losing_answers(world.storage) as world.storage:
        bench = Bench(world)
        assert bench.update(incident()) == both("began", "arrival_overdue")
        assert bench.update(incident(), after=MINUTE) == []
        assert bench.update(after=10 * MINUTE) == both("ended", "arrival_overdue")
        assert bench.records() == []


def test_it_may_begin_again(bench: Bench) -> None:
    bench.update(incident())
    bench.update(after=5 * MINUTE)
    assert bench.update(incident(), after=10 * MINUTE) == both("began", "arrival_overdue")


def test_incidents_with_different_subjects_are_different(bench: Bench) -> None:
    refused = [incident(IncidentKind.DELIVERY_REFUSED, name) for name in ("8-1", "9-1")]
    assert len(bench.update(*refused)) == 4
    assert bench.update(refused[1], after=MINUTE) == both("ended", "delivery_refused-8-1")


def test_a_missed_sla_replaces_its_warning(bench: Bench) -> None:
    bench.update(incident(IncidentKind.SLA_AT_RISK))
    assert bench.update(incident(IncidentKind.SLA_MISSED), after=MINUTE) == both("began", "promise_missed")
    assert bench.records() == ["promise_missed.json"]
    assert bench.update(after=2 * MINUTE) == both("ended", "promise_missed")


def test_one_recovery_when_the_deadline_reported_the_miss_between_two_checks(bench: Bench) -> None:
    bench.update(incident(IncidentKind.SLA_AT_RISK))
    assert bench.records_of_feed.open(incident(IncidentKind.SLA_MISSED), NOW)
    assert not bench.records_of_feed.open(incident(IncidentKind.SLA_MISSED), NOW)
    assert bench.update(after=5 * MINUTE) == both("ended", "promise_missed")
    assert bench.records() == []


def test_a_notifier_that_failed_is_retried_and_the_others_are_not(bench: Bench) -> None:
    bench.broken = {"mail"}
    assert bench.update(incident()) == [("log", "began", "arrival_overdue")]
    bench.broken = set()
    assert bench.update(incident(), after=MINUTE) == [("mail", "began", "arrival_overdue")]
    assert bench.update(incident(), after=2 * MINUTE) == []


def test_an_incident_that_is_checked_alone_is_sent_again_to_those_that_were_not_reached(bench: Bench) -> None:
    bench.update(incident(IncidentKind.WATCH_PAUSED))
    bench.sent.clear()
    bench.broken = {"mail"}
    silent = incident(IncidentKind.ENVIRONMENT_SILENT)
    bench.records_of_feed.open_or_retry(silent, NOW)
    assert bench.sent == [("log", "began", "environment_silent")]
    bench.broken = set()
    for _ in range(2):
        bench.records_of_feed.open_or_retry(silent, NOW)
    assert bench.sent == both("began", "environment_silent")
    assert len(bench.records()) == 2


def test_a_notifier_that_was_not_reached_is_not_sent_the_end(bench: Bench) -> None:
    bench.broken = {"mail"}
    bench.update(incident())
    bench.broken = set()
    assert bench.update(after=MINUTE) == [("log", "ended", "arrival_overdue")]


def test_an_end_that_could_not_be_sent_is_retried(bench: Bench) -> None:
    bench.update(incident())
    bench.broken = {"mail"}
    assert bench.update(after=MINUTE) == [("log", "ended", "arrival_overdue")]
    bench.broken = set()
    assert bench.update(after=2 * MINUTE) == [("mail", "ended", "arrival_overdue")]
    assert bench.records() == []


def test_an_end_is_not_retried_for_ever(bench: Bench) -> None:
    bench.update(incident())
    bench.broken = {"mail"}
    bench.update(after=MINUTE)
    bench.update(after=2 * MINUTE + RECOVERY_RETRIED_FOR)
    assert bench.records() == []


def test_the_claim_of_a_process_that_died_expires(bench: Bench) -> None:
    class Died(Exception):
        pass

    def die(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        raise Died

    dying = IncidentRecords(bench.store, bench.feed, ("log", "mail"), die)
    with pytest.raises(Died):
        dying.update([incident()], NOW)
    assert bench.update(incident(), after=CLAIM_LIFETIME / 2) == []
    assert bench.update(incident(), after=CLAIM_LIFETIME) == both("began", "arrival_overdue")


def test_the_claim_of_a_process_that_died_while_it_sent_the_end_expires(bench: Bench) -> None:
    bench.update(incident())
    name = f"{bench.feed}/incidents/arrival_overdue.json"
    record, generation = bench.records_of_feed._read_all()["arrival_overdue"]
    ended = dataclasses.replace(record, ended_at=NOW + MINUTE, claimed_at=NOW + MINUTE)
    assert bench.records_of_feed._write(ended, generation) is not None
    assert bench.update(after=MINUTE + CLAIM_LIFETIME) == both("ended", "arrival_overdue")
    assert bench.store.read(name) is None


def test_an_incident_that_returns_while_its_end_is_retried_is_notified_afterwards(bench: Bench) -> None:
    bench.update(incident())
    bench.broken = {"mail"}
    bench.update(after=MINUTE)
    bench.broken = set()
    assert bench.update(incident(), after=2 * MINUTE) == [("mail", "ended", "arrival_overdue")]
    assert bench.update(incident(), after=3 * MINUTE) == both("began", "arrival_overdue")


def test_a_notifier_that_fails_does_not_hold_back_the_next_alert_to_the_others(bench: Bench) -> None:
    bench.update(incident())
    bench.broken = {"mail"}
    assert bench.update(after=5 * MINUTE) == [("log", "ended", "arrival_overdue")]
    assert bench.update(incident(), after=10 * MINUTE) == []
    assert bench.update(incident(), after=15 * MINUTE) == [("log", "began", "arrival_overdue")]


def test_the_retried_end_of_a_miss_does_not_swallow_the_end_of_a_later_warning(bench: Bench) -> None:
    bench.update(incident(IncidentKind.SLA_MISSED))
    bench.broken = {"mail"}
    bench.update(after=5 * MINUTE)
    assert bench.update(incident(IncidentKind.SLA_AT_RISK), after=10 * MINUTE) == [("log", "began", "promise_at_risk")]
    assert bench.update(after=15 * MINUTE) == [("log", "ended", "promise_at_risk")]


def test_a_check_with_a_state_older_than_the_incident_does_not_end_it(bench: Bench) -> None:
    bench.records_of_feed.open(incident(IncidentKind.SLA_MISSED), NOW + timedelta(seconds=5))
    assert bench.update(after=timedelta(0)) == []
    assert bench.records() == ["promise_missed.json"]
    assert bench.update(after=2 * MINUTE) == both("ended", "promise_missed")


def test_an_incident_that_is_being_notified_is_not_ended(bench: Bench) -> None:
    def other_check(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        assert bench.update(after=5 * MINUTE) == []
        return names

    IncidentRecords(bench.store, bench.feed, ("log", "mail"), other_check).update([incident()], NOW)
    assert bench.update(after=6 * MINUTE) == both("ended", "arrival_overdue")


@pytest.mark.parametrize("checkers", [2, 6])
def test_several_checks_at_once_notify_once(bench: Bench, checkers: int) -> None:
    def race(*incidents: Incident, after: timedelta) -> list[tuple[str, str, str]]:
        before, barrier = len(bench.sent), threading.Barrier(checkers)

        def check() -> None:
            records = IncidentRecords(bench.store, bench.feed, ("log", "mail"), bench.notify)
            barrier.wait()
            records.update(incidents, NOW + after)

        threads = [threading.Thread(target=check) for _ in range(checkers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(bench.sent[before:])

    assert race(incident(), after=timedelta(0)) == both("began", "arrival_overdue")
    assert race(incident(), after=MINUTE) == []
    assert race(after=5 * MINUTE) == both("ended", "arrival_overdue")
    assert bench.records() == []
