"""The watchdog's alerts: one when an incident begins and one when it ends, to each notifier, at least once."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from unittest.mock import Mock

import pytest

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, read_incident_records
from dedup_clone.orchestration.watchdog import notifiers
from dedup_clone.orchestration.watchdog.notifiers import Alert, AlertNotifiers, report_incidents
from dedup_clone.settings.deployment import AlertSettings
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.killed_writes import Killed
from tests.shared.freshness_states import NOW, incident

OVERDUE, MISSED = incident(), incident(IncidentKind.LATE)
AT_RISK = incident(IncidentKind.LATE, severity=Severity.WARNING)
UNCHECKED = incident(IncidentKind.REPORTING, "not_checked")
FIRST, SECOND = (incident(IncidentKind.REFUSED, name) for name in ("8-1", "9-1"))


class Bench(AlertNotifiers):
    """Two notifiers; `sent` is what they sent, `broken` are those that fail."""

    names = ("log", "mail")

    def __init__(self, world: FeedOnStandIn) -> None:
        self.store = ObjectStore(world.storage, "state")
        self.feed = world.feed.feed
        self.sent: list[str] = []
        self.broken: set[str] = set()

    @property
    def failures(self) -> dict[str, str]:  # type: ignore[override]
        return dict.fromkeys(self.broken, "no route")

    def send(self, alert: Alert, names: tuple[str, ...]) -> tuple[str, ...]:
        reached = tuple(name for name in names if name not in self.broken)
        ended = "ended" if alert.ended_at else "began"
        warning = " as a warning" if alert.incident.severity is Severity.WARNING else ""
        self.sent += [f"{name}: {alert.incident.name} {ended}{warning}" for name in reached]
        return reached

    def check(self, *found: Incident, minute: float = 0) -> list[str]:
        """What a check sends that finds these incidents."""
        before, now = len(self.sent), NOW + timedelta(minutes=minute)
        with pytest.raises(AlertNotSent, match="mail") if self.broken else nullcontext():
            report_incidents(self.store, self.feed, found, now, AlertSettings(), readers_see="snapshot 7")
        return self.sent[before:]


@pytest.fixture
def bench(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(world)
    monkeypatch.setattr(notifiers, "AlertNotifiers", lambda settings: made)
    return made


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
        (0, [FIRST, SECOND], True, both("refused-8-1 began") + both("refused-9-1 began")),
        (1, [SECOND], True, both("refused-8-1 ended")),
        (2, [], True, both("refused-9-1 ended")),
    ],
    "a warning and the miss that it becomes are one incident, of which everybody is told twice": [
        (0, [AT_RISK], True, both("late began as a warning")),
        (1, [MISSED], True, both("late began")),
        (2, [MISSED], True, []),
        (3, [], True, both("late ended")),
    ],
    "so are a miss and a warning about a later delivery": [
        (0, [MISSED], True, both("late began")),
        (1, [AT_RISK], False, ["log: late began as a warning"]),
        (2, [AT_RISK], True, ["mail: late began as a warning"]),
        (3, [], True, both("late ended as a warning")),
    ],
    "a notifier that knows only the warning is told of the end": [
        (0, [AT_RISK], True, both("late began as a warning")),
        (1, [MISSED], False, ["log: late began"]),
        (2, [], True, both("late ended")),
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
    "it returns before a notifier knows of its end": [
        (0, [OVERDUE], True, both(BEGAN)),
        (1, [], False, [f"log: {ENDED}"]),
        (2, [OVERDUE], True, [f"log: {BEGAN}"]),
        (3, [OVERDUE], True, []),
        (5, [], True, both(ENDED)),
    ],
    "the retried end of a miss does not swallow the end of a later warning": [
        (0, [MISSED], True, both("late began")),
        (5, [], False, ["log: late ended"]),
        (10, [AT_RISK], False, ["log: late began as a warning"]),
        (15, [], False, ["log: late ended as a warning"]),
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_who_is_told_of_what(bench: Bench, name: str) -> None:
    for minute, found, mail_works, expected in HISTORIES[name]:
        bench.broken = set() if mail_works else {"mail"}
        assert bench.check(*found, minute=minute) == expected, minute
    assert read_incident_records(bench.store, bench.feed).open == ()


def test_what_was_not_looked_for_stays_open_and_is_sent_again_to_those_that_were_not_reached(bench: Bench) -> None:
    """A feed that cannot be checked is reported beside the incidents that are open."""
    bench.broken = {"mail"}
    assert bench.check(OVERDUE) == [f"log: {BEGAN}"]
    assert bench.check(UNCHECKED, OVERDUE) == ["log: reporting-not_checked began"]
    bench.broken = set()
    assert bench.check(UNCHECKED, OVERDUE) == [f"mail: {BEGAN}", "mail: reporting-not_checked began"]
    assert bench.check(UNCHECKED, OVERDUE) == []
    assert read_incident_records(bench.store, bench.feed).open == (OVERDUE, UNCHECKED)
    assert bench.check(OVERDUE) == both("reporting-not_checked ended")


def test_a_check_that_is_killed_before_it_stores_what_it_sent_sends_it_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed_check(*found: Incident) -> None:
        with monkeypatch.context() as kill:
            kill.setattr(notifiers, "write_incident_records", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                bench.check(*found)

    killed_check(OVERDUE)
    assert bench.check(OVERDUE) == both(BEGAN)
    killed_check()
    assert bench.check() == both(ENDED)
    assert bench.check() == []


def test_after_the_object_was_damaged_what_is_open_is_reported_again(bench: Bench) -> None:
    bench.check(OVERDUE)
    bench.store.put(FeedLayout(bench.feed).incidents, "{")
    assert bench.check(OVERDUE) == both(BEGAN)
    assert bench.check(OVERDUE) == []
