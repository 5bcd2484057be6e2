"""The reporting tables: their failures stop no feed, and every row reaches them once, within BigQuery's limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers
from dedup_clone.orchestration.watchdog.reporting import report_late_rows
from dedup_clone.publish.records import reporting_tables
from dedup_clone.publish.records.late_rows import LATE_AFTER
from dedup_clone.publish.records.ledger_table import ledger_schema
from dedup_clone.publish.records.reporting_tables import SECONDS_BETWEEN_LOADS, WRITER_TIMEOUT_S, write_reporting_tables
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.reporting_backlog import ReportingBacklog, ReportingLoad
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.new_feeds import new_feed
from tests.thoroughness import times

# More than the five changes of a table in ten seconds that BigQuery allows.
FEEDS_AT_ONCE = times(7, 24)


@pytest.fixture(autouse=True)
def no_faults_left(world: FeedOnStandIn) -> Iterator[None]:
    wait_for_turn(world)
    yield
    world.clear_faults()


def wait_for_turn(world: FeedOnStandIn) -> None:
    """Until the limits allow the next load: other tests' publishes write the same tables."""
    backlog = ReportingBacklog(world.services.store)
    stored = backlog.read_writer()
    writer = stored.writer
    if writer.load is not None:  # that of a run which an earlier test let die
        backlog.replace_writer(replace(writer, load=None), expected_object_generation=stored.object_generation)
    if writer.begun_at is not None:
        since_last = (datetime.now(UTC) - writer.begun_at).total_seconds()
        time.sleep(SECONDS_BETWEEN_LOADS - since_last if 0 <= since_last < SECONDS_BETWEEN_LOADS else 0)


def fail_loads(world: FeedOnStandIn, table: str, *, times: int = 1000) -> None:
    fault = {
        "match": {"job_id": f"reporting-.*-{table}"},
        "effect": "error",
        "reason": "rateLimitExceeded",
        "times": times,
    }
    world.add_fault(fault)


def ledger(world: FeedOnStandIn) -> list[int]:
    sql = f"SELECT generation FROM warehouse.dedup_clone_ledger WHERE feed = '{world.feed.feed}' ORDER BY generation"
    return [r["generation"] for r in world.bigquery.query_and_wait(sql)]


def status(world: FeedOnStandIn) -> list[int]:
    sql = f"SELECT generation FROM warehouse.dedup_clone_status WHERE feed = '{world.feed.feed}'"
    return [r["generation"] for r in world.bigquery.query_and_wait(sql)]


def swapped(world: FeedOnStandIn, snapshot_id: int = 7) -> PublishSpec:
    spec = world.resolve(world.land(snapshot_id, [row(snapshot_id, 1)]))
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    return spec


def die_in_commit(world: FeedOnStandIn, spec: PublishSpec, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(reporting_tables, function, die)
        with pytest.raises(SystemExit):
            world.commit(spec)


@pytest.mark.parametrize("table", [pytest.param("status", marks=pytest.mark.exhaustive), "ledger"])
def test_a_table_that_cannot_be_loaded_stops_no_publish(world: FeedOnStandIn, table: str) -> None:
    fail_loads(world, table)
    for snapshot_id in (7, 8):
        record = world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
        current = world.services.current.read()
        assert (current.generation, current.intent) == (record.generation, None)
    world.clear_faults()
    world.write_reporting_tables()
    assert (ledger(world), status(world)) == ([1, 2], [2])


@pytest.mark.exhaustive
def test_a_table_that_cannot_be_loaded_holds_no_lease_of_a_discarded_attempt(world: FeedOnStandIn) -> None:
    fail_loads(world, "ledger")
    spec = world.resolve(world.land(7, [row(7, 1)]))
    assert not commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    assert world.services.current.read().intent is None
    world.clear_faults()
    world.write_reporting_tables()
    assert ledger(world) == [1]


def test_damaged_objects_keep_no_other_rows_from_the_tables(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = world.services.store
    damaged = ("_reporting/ledger/broken/00000001-a.json", "_status/broken.json", "_reporting/WRITER")
    for name in (*damaged, "_reporting/ledger/", "_status/placeholder"):
        store.put(name, '{"feed": ')
    with caplog.at_level("WARNING"):
        world.publish(world.land(7, [row(7, 1)]))
        world.write_reporting_tables()
    assert (ledger(world), status(world)) == ([1], [1])
    assert f"[{store.uri(damaged[0])}] is damaged" in caplog.text
    assert [store.read(name) is None for name in damaged[:2]] == [False, False]


def test_rows_that_another_writer_removed_meanwhile_are_not_called_damaged(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = ReportingBacklog.names
    removed = ReportingBacklog(world.services.store).name(world.feed.feed, "00000001-removed")
    monkeypatch.setattr(ReportingBacklog, "names", lambda self: [*names(self), removed])
    with caplog.at_level("WARNING"):
        world.write_reporting_tables()
    assert removed not in caplog.text


def test_rows_that_are_not_loaded_for_long_are_an_incident_of_its_own(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, clock = [], world.now
    monkeypatch.setattr(AlertNotifiers, "send", lambda self, alert, names: sent.append(alert) or names)
    fail_loads(world, "ledger")
    fail_loads(world, "status")
    world.publish(world.land(7, [row(7, 1)]))
    report_late_rows(world.services, AlertSettings())
    assert sent == []
    world.now = lambda: clock() + LATE_AFTER + timedelta(minutes=1)
    for _ in range(2):
        report_late_rows(world.services, AlertSettings())
    tables = ["rows_not_loaded-dedup_clone_status", "rows_not_loaded-dedup_clone_ledger"]
    began = [alert for alert in sent if alert.incident in tables]
    assert [(a.feed, a.incident, a.event_action) for a in began] == [("_reporting", t, "trigger") for t in tables]
    world.clear_faults()
    world.write_reporting_tables()
    world.now = lambda: clock() + 2 * LATE_AFTER
    report_late_rows(world.services, AlertSettings())
    assert sorted(a.incident for a in sent if a.event_action == "resolve") == sorted(tables)


@pytest.mark.exhaustive
def test_a_dropped_table_is_made_again(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.write_reporting_tables()
    world.bigquery.query_and_wait("DROP TABLE warehouse.dedup_clone_status")
    world.write_reporting_tables()
    assert status(world) == [1]


@pytest.mark.exhaustive
def test_a_column_that_the_table_lacks_is_added(world: FeedOnStandIn) -> None:
    world.write_reporting_tables()
    table = "warehouse.dedup_clone_ledger"
    world.bigquery.delete_table(table, not_found_ok=True)
    world.bigquery.query_and_wait(f"CREATE TABLE {table} (feed STRING, phases ARRAY<STRUCT<name STRING>>)")
    world.bigquery.query_and_wait(f"INSERT INTO {table} (feed) VALUES ('{world.feed.feed}')")
    world.publish(world.land(7, [row(7, 1)]))
    world.write_reporting_tables()
    columns = {field.name: {inner.name for inner in field.fields} for field in world.bigquery.get_table(table).schema}
    assert columns.keys() == {field["name"] for field in ledger_schema()}
    assert columns["phases"] == {"name", "seconds"}
    assert {r["generation"] for r in world.bigquery.query_and_wait(f"SELECT generation FROM {table}")} == {None, 1}


@pytest.mark.exhaustive
def test_the_status_table_tells_a_replay_and_a_rollback(world: FeedOnStandIn) -> None:
    sql = f"SELECT snapshot_id, replay, restores FROM warehouse.dedup_clone_status WHERE feed = '{world.feed.feed}'"
    reported = []
    delivery = world.land(7, [row(7, 1)])
    for publish in (
        lambda: world.publish(delivery),
        lambda: world.publish(delivery, replay=True, run_id="by-hand", reason="again"),
        lambda: world.roll_back(1),
    ):
        publish()
        world.write_reporting_tables()
        reported += [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)]
        wait_for_turn(world)
    assert reported == [(7, False, None), (7, True, None), (7, False, 1)]


@pytest.mark.parametrize("died", ["before its jobs", "after its jobs"])
def test_what_a_dead_writer_left_is_added_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    backlog = ReportingBacklog(world.services.store)
    die_in_commit(world, swapped(world), monkeypatch, "_start" if died == "before its jobs" else "_succeeded")
    dead = backlog.read_writer().writer.load
    assert dead
    write_reporting_tables(world.services, holder="another")
    assert backlog.read_writer().writer.load == dead  # it may be alive
    world.now = lambda: datetime.now(UTC) + timedelta(seconds=WRITER_TIMEOUT_S + 1)
    world.write_reporting_tables()
    assert (ledger(world), status(world)) == ([1], [1])
    start_late(world, dead)
    assert (ledger(world), status(world)) == ([1], [1])


def start_late(world: FeedOnStandIn, load: ReportingLoad) -> None:
    """The writer was not dead after all, and starts its jobs only now."""
    backlog = ReportingBacklog(world.services.store)
    backlog.add(world.feed.feed, "late", {"feed": world.feed.feed, "generation": 1})
    reporting_tables._start(world.services, backlog, load)
    world.wait_for_all_jobs()


def test_the_retried_task_of_a_dead_writer_goes_on_at_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = swapped(world)
    die_in_commit(world, spec, monkeypatch, "_succeeded")
    world.commit(spec)
    assert (ledger(world), status(world)) == ([1], [1])
    assert ReportingBacklog(world.services.store).read_writer().writer.load is None


def test_feeds_that_commit_at_once_keep_to_the_limits_of_a_table(world: FeedOnStandIn) -> None:
    worlds = [FeedOnStandIn(new_feed("at_once_"), world.storage, world.bigquery) for _ in range(FEEDS_AT_ONCE)]
    specs = [swapped(one) for one in worlds]
    began = datetime.now(UTC)
    with ThreadPoolExecutor(FEEDS_AT_ONCE) as pool:
        records = list(pool.map(lambda one, spec: one.commit(spec), worlds, specs))
    assert [r.generation for r in records] == [1] * FEEDS_AT_ONCE
    world.write_reporting_tables()
    for one in worlds:
        assert (one.services.current.read().intent, ledger(one), status(one)) == (None, [1], [1])
    jobs = [j for j in world.bigquery.list_jobs(min_creation_time=began) if j.job_id.endswith("-ledger")]
    assert not [j.error_result for j in jobs if j.error_result]
    assert len(jobs) < FEEDS_AT_ONCE
