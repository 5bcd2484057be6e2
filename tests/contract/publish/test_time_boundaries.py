"""Time: midnight in UTC between two steps, partitions that expire meanwhile, zones, clocks that do not agree.

The stand-in's clock moves forward only, so these tests have servers of their own and each moves on from the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.publish.records.attempt_records import save_swap
from dedup_clone.settings.feed import Feed
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from testkit.server_clients import open_clients
from tests.contract.new_feeds import new_feed

RETENTION_DAYS = 730


@pytest.fixture(scope="module")
def own_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("timed")) as clients:
        yield clients


class TimedWorld(FeedOnStandIn):
    """A world whose BigQuery clock and whose own clock are moved together, or apart by `skew`."""

    skew = timedelta(0)

    def __init__(self, feed: Feed, storage: Storage, bigquery: BigQuery) -> None:
        super().__init__(feed, storage, bigquery)
        (answer,) = self.bigquery.query_and_wait("SELECT CURRENT_TIMESTAMP() AS now")
        self._moved = answer["now"] - datetime.now(UTC)
        self.now = lambda: self.bigquery_time() + self.skew

    def bigquery_time(self) -> datetime:
        return datetime.now(UTC) + self._moved

    def move_to(self, moment: datetime) -> None:
        ahead = moment - self.bigquery_time()
        self.pass_time(ahead)
        self._moved += ahead

    def next_midnight(self, *, less: timedelta = timedelta(0)) -> datetime:
        """The next midnight in UTC that is still ahead with `less` subtracted, with `less` subtracted."""
        today = (self.bigquery_time() + less).date()
        return datetime(today.year, today.month, today.day, tzinfo=UTC) + timedelta(days=1) - less


@pytest.fixture
def timed(own_clients: tuple[Storage, BigQuery]) -> TimedWorld:
    return TimedWorld(new_feed(), *own_clients)


def days_before(world: TimedWorld, count: int) -> date:
    return world.bigquery_time().date() - timedelta(days=count)


@pytest.mark.parametrize(
    "midnight_after",
    ["load", *(pytest.param(s, marks=pytest.mark.exhaustive) for s in ("resolve", "dedup", "check", "swap"))],
)
def test_a_publish_across_midnight_keeps_the_day_that_it_began_with(timed: TimedWorld, midnight_after: str) -> None:
    timed.move_to(timed.next_midnight(less=timedelta(seconds=40)))
    oldest, newest = days_before(timed, RETENTION_DAYS - 1), days_before(timed, 0)
    rows = [row(7, 1, day=oldest), row(7, 2, day=newest)]

    def midnight_if(step: str) -> None:
        if step == midnight_after:
            timed.move_to(timed.next_midnight() + timedelta(seconds=5))

    spec = timed.resolve(timed.land(7, rows))
    retention_day = timed.services.now().date() - timedelta(days=RETENTION_DAYS - 1)
    assert retention_day == oldest
    midnight_if("resolve")
    timed.dedup.run(spec.request_uri)
    midnight_if("dedup")
    timed.load(spec)
    midnight_if("load")
    swap = timed.check(spec)
    midnight_if("check")
    timed.swap(spec, swap)
    midnight_if("swap")
    timed.commit(spec)
    found = timed.rows()
    assert found in (expected(*rows), expected(rows[1]))  # BigQuery may drop the day that expired meanwhile
    assert timed.services.manifests.read(1).retention_day == oldest


def test_a_partition_that_expires_between_load_and_check_is_no_difference(timed: TimedWorld) -> None:
    timed.move_to(timed.next_midnight(less=timedelta(seconds=40)))
    oldest, newest = days_before(timed, RETENTION_DAYS - 1), days_before(timed, 0)
    spec = timed.resolve(timed.land(7, [row(7, 1, day=oldest), row(7, 2, day=newest)]))
    timed.dedup.run(spec.request_uri)
    timed.load(spec)
    timed.move_to(timed.next_midnight() + timedelta(hours=1))
    assert timed.rows(timed.feed.staging) == expected(row(7, 2, day=newest))
    candidate = timed.services.manifests.candidate(spec.attempt)
    assert candidate is not None
    assert candidate.manifest is not None
    assert candidate.manifest.rows == 2  # a check that asks for as many rows in staging would refuse for ever
    timed.swap(spec, timed.check(spec))
    timed.commit(spec)
    assert timed.rows() == expected(row(7, 2, day=newest))


def test_the_next_publish_after_midnight_drops_the_day_that_left_the_retention(timed: TimedWorld) -> None:
    timed.move_to(timed.next_midnight(less=timedelta(seconds=60)))
    oldest, newest = days_before(timed, RETENTION_DAYS - 1), days_before(timed, 0)
    timed.publish(timed.land(7, [row(7, 1, day=oldest), row(7, 2, day=newest)]))
    timed.move_to(timed.next_midnight() + timedelta(seconds=5))
    spec = timed.resolve(timed.land(8, [row(8, 2, day=newest)]))
    assert timed.now().date() - timedelta(days=RETENTION_DAYS - 1) == oldest + timedelta(days=1)
    timed.dedup.run(spec.request_uri)
    timed.load(spec)
    timed.swap(spec, timed.check(spec))
    record = timed.commit(spec)
    assert timed.rows() == expected(row(8, 2, day=newest))
    assert record.dropped_rows == 1


@pytest.mark.parametrize("skew_s", [pytest.param(-60, marks=pytest.mark.exhaustive), 60])
def test_clocks_a_minute_apart_publish_around_midnight(timed: TimedWorld, skew_s: int) -> None:
    timed.move_to(timed.next_midnight(less=timedelta(seconds=20)))
    timed.skew = timedelta(seconds=skew_s)
    newest = days_before(timed, 0)
    first = [row(7, 1, day=newest), row(7, 2, day=newest - timedelta(days=RETENTION_DAYS - 3))]
    timed.publish(timed.land(7, first))
    timed.move_to(timed.next_midnight() + timedelta(seconds=20))
    timed.publish(timed.land(8, [row(8, 3, day=newest)]))
    assert timed.rows() == expected(*first, row(8, 3, day=newest))
    assert timed.services.ledger.read_last(2)[-1].lag_s is not None


def test_a_clone_as_of_a_full_second_is_committed_and_rolled_back(timed: TimedWorld) -> None:
    """Google's JSON then shows the clone's time without a fraction."""
    newest = days_before(timed, 0)
    spec, checked = timed.publish_to_check(timed.land(7, [row(7, 1, day=newest)]))
    full_second = checked.checked_at.replace(microsecond=0) + timedelta(seconds=1)
    timed.pass_time(timedelta(seconds=1))
    whole = replace(checked, checked_at=full_second)  # as if the checks had read staging at this time
    save_swap(timed.services, whole)
    timed.swap(spec, whole)
    resource = timed.bigquery.get_table(f"warehouse.{timed.feed.target}").to_api_repr()
    assert resource["cloneDefinition"]["cloneTime"] == f"{full_second:%Y-%m-%dT%H:%M:%S}Z"
    assert timed.commit(spec).swapped_at is not None
    timed.publish(timed.land(8, [row(8, 1, 30, day=newest)]))
    timed.roll_back(1)
    assert timed.rows() == expected(row(7, 1, day=newest))


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin"])
def test_a_producer_in_another_zone_may_deliver_its_own_today(timed: TimedWorld, zone: str) -> None:
    """Of a day that has begun there (or not yet ended), on either side of a change to daylight saving time."""
    local_today = timed.bigquery_time().astimezone(ZoneInfo(zone)).date()
    spec = timed.resolve(timed.land(7, [row(7, 1, day=local_today)]))
    assert spec.snapshot_id == 7
    request = timed.services.store.read(timed.services.layout.request(spec.attempt))
    assert request is not None
    latest = timed.now().date() + timedelta(days=1)
    assert f'"latest_day": "{latest}"' in request.text
    assert local_today <= latest


@pytest.mark.exhaustive
def test_daylight_saving_in_the_producers_zone_moves_neither_dates_nor_arrivals(timed: TimedWorld) -> None:
    """Both nights of Berlin's changes: the days are whole UTC days, arrivals are compared in UTC."""
    year = timed.bigquery_time().year + 1
    for change in (datetime(year, 3, 28, 0, 59, 50, tzinfo=UTC), datetime(year, 10, 31, 0, 59, 50, tzinfo=UTC)):
        timed.move_to(change)
        today = change.date()
        timed.publish(timed.land(change.month, [row(change.month, 1, day=today)]))
        timed.move_to(change + timedelta(seconds=20))
        record = timed.publish(timed.land(change.month + 1, [row(change.month + 1, 2, day=today)]))
        assert record.swapped_at is not None
        assert record.swapped_at.astimezone(UTC).date() == today
        assert {entry.date for entry in timed.services.manifests.read(record.generation).dates} >= {today}
