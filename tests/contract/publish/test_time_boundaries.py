"""Time: midnight in UTC between two steps, partitions that expire meanwhile, zones, clocks, streamed rows.

The stand-in's clock moves forward only, so these tests have servers of their own and each moves on from the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.settings.feed import Feed
from testkit import runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from testkit.server_clients import open_clients
from testkit.spark_dedup_process import SparkDedupProcess
from tests.contract.new_feeds import new_feed
from tests.contract.publish.existing_tables import with_table
from tests.shared.write_api_client import days_since_epoch, stream_rows

RETENTION_DAYS = 730
SECONDS = timedelta(seconds=1)


@pytest.fixture(scope="module")
def own_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("timed")) as clients:
        yield clients


@pytest.mark.parametrize("table", ["staging", "target"])
def test_the_checks_wait_for_rows_that_somebody_streams_until_too_little_of_the_sla_is_left(
    own_clients: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """The first tests, because the clock of landing cannot be moved."""
    world = FeedOnStandIn(new_feed("streamed_"), *own_clients)
    world.publish(world.land(7, [row(7, 1)]))
    world.land(8, [row(8, 1), row(8, 2)])
    tasks = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish", snapshot_id="8", reason="once more")
    for task_id in ("resolve_publish", "dedup_snapshot", "load_staging"):
        tasks.execute(task_id)
    name = world.feed.staging if table == "staging" else world.feed.target
    streamed = {**row(7, 9), "date": days_since_epoch(TODAY)}
    stream_rows(world.bigquery, f"warehouse.{name}", [streamed])
    with pytest.raises(TaskDeferred) as deferred:
        tasks.execute("check_staging")
    resume = deferred.value.method_name
    begin = world.now()
    world.now = lambda: begin + timedelta(minutes=54)  # 0.9 of the SLA of an hour
    with pytest.raises(AirflowFailException, match=rf"streaming_buffer: \[{name}: about 1 streamed rows, the oldest"):
        tasks.resume("check_staging", resume)
    world.pass_time(timedelta(minutes=90))  # BigQuery flushes the buffer
    world.now = lambda: begin + timedelta(minutes=95)
    if table == "staging":  # the flushed row is in staging now, which is loaded again
        with pytest.raises((AirflowFailException, CheckFailed), match=r"staging_rows"):
            tasks.resume("check_staging", resume)
    else:  # the swap replaces it
        tasks.resume("check_staging", resume)
        tasks.execute("swap_target")
        assert [found[1] for found in world.rows()] == [1, 2]


class TimedWorld(FeedOnStandIn):
    """A world whose BigQuery clock and whose own clock are moved together, or apart by `skew`."""

    skew = timedelta(0)

    def __init__(self, feed: Feed, storage: Storage, bigquery: BigQuery) -> None:
        super().__init__(feed, storage, bigquery)
        ((now,),) = self.query("SELECT CURRENT_TIMESTAMP() AS now")
        self._moved = now - datetime.now(UTC)
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

    def day(self, *, before: int = 0) -> date:
        return self.bigquery_time().date() - timedelta(days=before)


@pytest.fixture
def timed(own_clients: tuple[Storage, BigQuery]) -> TimedWorld:
    return TimedWorld(new_feed("timed_"), *own_clients)


@pytest.mark.parametrize("step", ["resolve", "dedup", "load", "check", "swap"])
def test_a_publish_across_midnight_keeps_the_day_that_it_began_with(timed: TimedWorld, step: str) -> None:
    """A partition that BigQuery expires meanwhile is no difference, and the next publish drops the day for good."""
    timed.move_to(timed.next_midnight(less=40 * SECONDS))
    oldest, newest = timed.day(before=RETENTION_DAYS - 1), timed.day()
    rows = [row(7, 1, day=oldest), row(7, 2, day=newest)]
    run = runs.publish(timed, timed.land(7, rows)).until(step)
    timed.move_to(timed.next_midnight() + 5 * SECONDS)
    run.finish()
    assert timed.rows() in (expected(*rows), expected(rows[1]))  # BigQuery may drop the day that expired meanwhile
    manifest = timed.state.manifest(1)
    assert (manifest["retention_day"], sum(entry["rows"] for entry in manifest["dates"])) == (str(oldest), 2)
    record = timed.publish(timed.land(8, [row(8, 2, day=newest)]))
    assert timed.rows() == expected(row(8, 2, day=newest))
    assert record.dropped_rows == 1
    assert timed.state.manifest(2)["retention_day"] == str(oldest + timedelta(days=1))


def publish_after_a_longer_retention(timed: TimedWorld, first: Engine, later: Engine, *, keeps: bool) -> None:
    """`first`, `later`: the engines of the publishes before and after. `keeps`: whether an expired date stays."""
    timed.move_to(timed.next_midnight(less=20 * SECONDS))
    days = [timed.day(before=RETENTION_DAYS - 1), *(timed.day(before=before) for before in range(4))]
    rows = [row(7, number, day=day) for number, day in enumerate(days)]
    timed.publish(timed.land(7, rows), engine=first)
    timed.move_to(timed.next_midnight() + 5 * SECONDS)
    timed.feed = with_table(timed.feed, retention_days=900)
    timed.publish(timed.land(8, [row(8, 9, day=days[1])]), engine=later)
    assert timed.rows() == expected(*(rows if keeps else rows[1:]), row(8, 9, day=days[1]))
    timed.publish(timed.land(9, [row(9, 0, 30, day=days[0])]), engine=later)
    assert timed.rows() == expected(*rows[1:], row(8, 9, day=days[1]), row(9, 0, 30, day=days[0]))


@pytest.mark.parametrize(
    ("engine", "mode", "keeps"),
    [(Engine.SPARK, "last_changed", True), (Engine.BIGQUERY, "last_seen", False), (Engine.MERGE, "last_seen", False)],
)
def test_a_date_that_expired_before_the_retention_was_raised_stops_no_publish(
    timed: TimedWorld, engine: Engine, mode: str, *, keeps: bool
) -> None:
    """Engine `spark` still has its files, and loads them again."""
    timed.configure(update_id_mode=mode)
    publish_after_a_longer_retention(timed, engine, engine, keeps=keeps)


@pytest.mark.spark
def test_nor_does_it_if_spark_reads_what_an_engine_in_sql_published(timed: TimedWorld) -> None:
    """Target is exported without the date."""
    with SparkDedupProcess(timed.storage) as timed.dedup:
        publish_after_a_longer_retention(timed, Engine.BIGQUERY, Engine.SPARK, keeps=False)


def test_a_rollback_to_the_live_generation_leaves_out_what_has_expired_before_the_retention_was_raised(
    timed: TimedWorld,
) -> None:
    """Staging still holds it, but time travel does not reach its publish any more."""
    timed.move_to(timed.next_midnight(less=20 * SECONDS))
    rows = [row(7, 1, day=timed.day(before=RETENTION_DAYS - 1)), row(7, 2, day=timed.day())]
    timed.publish(timed.land(7, rows), engine=Engine.BIGQUERY)
    timed.move_to(timed.next_midnight() + timedelta(days=8))
    timed.feed = with_table(timed.feed, retention_days=900)
    second = row(8, 9, day=timed.day())
    runs.publish(timed, timed.land(8, [second])).until("resolve").end()
    record = timed.roll_back(1)
    assert {check["level"] for check in timed.state.checks(record.attempt, "after").values()} == {"pass"}
    timed.publish(timed.land(9, [row(9, 2, 30, day=rows[1]["date"])]), engine=Engine.BIGQUERY)
    assert timed.rows() == expected(second, row(9, 2, 30, day=rows[1]["date"]))


def test_a_rebuild_that_exports_again_after_midnight_leaves_out_what_has_expired(timed: TimedWorld) -> None:
    timed.move_to(timed.next_midnight(less=40 * SECONDS))
    rows = [row(7, 1, day=timed.day(before=RETENTION_DAYS - 1)), row(7, 2, day=timed.day())]
    timed.publish(timed.land(7, rows))
    timed.feed = with_table(timed.feed, cluster_by=("store_id",))
    run = runs.rebuild(timed).until("export")
    timed.move_to(timed.next_midnight() + 5 * SECONDS)
    run.step("export")
    run.finish()
    assert timed.rows() == expected(rows[1])


@pytest.mark.parametrize("skew_s", [-60, 60])
def test_clocks_a_minute_apart_publish_around_midnight(timed: TimedWorld, skew_s: int) -> None:
    timed.move_to(timed.next_midnight(less=20 * SECONDS))
    timed.skew = skew_s * SECONDS
    newest = timed.day()
    first = [row(7, 1, day=newest), row(7, 2, day=newest - timedelta(days=RETENTION_DAYS - 3))]
    timed.publish(timed.land(7, first))
    timed.move_to(timed.next_midnight() + 20 * SECONDS)
    assert timed.publish(timed.land(8, [row(8, 3, day=newest)])).lag_s is not None
    assert timed.rows() == expected(*first, row(8, 3, day=newest))


def test_a_clone_as_of_a_full_second_is_committed_and_rolled_back(timed: TimedWorld) -> None:
    """Google's JSON then shows the clone's time without a fraction."""
    run = runs.publish(timed, timed.land(7, [row(7, 1, day=timed.day())])).until("check")
    full_second = run.checked.checked_at.replace(microsecond=0) + SECONDS
    timed.pass_time(SECONDS)
    run.pretend_checked(replace(run.checked, checked_at=full_second))
    record = run.finish()
    resource = timed.bigquery.get_table(f"warehouse.{timed.feed.target}").to_api_repr()
    assert resource["cloneDefinition"]["cloneTime"] == f"{full_second:%Y-%m-%dT%H:%M:%S}Z"
    assert record.swapped_at is not None
    timed.publish(timed.land(8, [row(8, 1, 30, day=timed.day())]))
    timed.roll_back(1)
    assert timed.rows() == expected(row(7, 1, day=timed.day()))


def test_a_producer_in_another_zone_may_deliver_its_own_today(timed: TimedWorld) -> None:
    """Of a day that has begun there (or not yet ended), on either side of a change to daylight saving time."""
    zones = ("Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin")
    todays = [timed.bigquery_time().astimezone(ZoneInfo(zone)).date() for zone in zones]
    run = runs.publish(timed, timed.land(7, [row(7, n, day=day) for n, day in enumerate(todays)])).until("resolve")
    latest = date.fromisoformat(timed.state.read(f"attempts/{run.attempt}/attempt.json")["latest_day"])
    assert latest == timed.now().date() + timedelta(days=1)
    assert max(todays) <= latest
