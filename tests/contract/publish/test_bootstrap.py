"""Bootstrap: a table that MERGE maintained becomes the first generation, and the next snapshot publishes on top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ConfigurationError, LeaseHeld, LostRace
from dedup_clone.contract.request import Duplicates
from dedup_clone.freshness.evaluation import evaluate
from dedup_clone.freshness.feed_state import DagActivity, read_feed_state
from dedup_clone.page.publish_kinds import PublishKind, publish_kinds
from dedup_clone.publish.bootstrap.existing_export import export_existing
from dedup_clone.publish.bootstrap.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.bootstrap.existing_table_problems import table_problems
from dedup_clone.publish.bootstrap.resolve_bootstrap import resolve_bootstrap
from dedup_clone.publish.planning.parent_generation import export_folder
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.rollback.resolve_rollback import RollbackRequest, resolve_rollback
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import ROLLBACK_DAG, TODAY, YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish import bootstrap_steps as steps

SNAPSHOT_7 = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SNAPSHOT_8 = [row(8, 1, 99), row(8, 4)]
MAINTAINED = [row(8, 1, 99), row(7, 2), row(8, 4), row(7, 3, day=YESTERDAY)]


COLUMNS = "date DATE, product_id INT64, store_id INT64, attribute_id INT64, attr_value INT64, update_id INT64"


@pytest.fixture
def maintained(world: FeedOnStandIn) -> FeedOnStandIn:
    """Target as MERGE left it."""
    steps.create_table(world, world.feed.target)
    steps.insert(world, world.feed.target, SNAPSHOT_7)
    steps.merge(world, world.feed.target, SNAPSHOT_8)
    assert world.rows() == expected(*MAINTAINED)
    return world


def test_a_table_that_merge_maintained_is_taken_over_with_equal_contents_as_the_evidence_says(
    maintained: FeedOnStandIn,
) -> None:
    record = steps.bootstrap(maintained, reason="from now on by clones")
    assert maintained.rows() == expected(*MAINTAINED)
    assert maintained.live() == "1"
    target = maintained.services.warehouse.table(maintained.feed.target)
    assert target
    assert target.clone_of == maintained.feed.staging
    assert target.labels["dedup_clone_snapshot"] == "8"
    assert (record.outcome, record.generation, record.parent, record.snapshot_id) == (Outcome.PUBLISHED, 1, None, 8)
    assert (record.rows, record.deliveries, record.lag_s, record.is_bootstrap) == (4, (), None, True)
    assert record.reason == (
        f"takes over [warehouse.{maintained.feed.target}], duplicates [refuse]: from now on by clones"
    )
    found = {item.check: item.found for item in read_check_results(maintained.services, record.attempt, "before").items}
    assert found["existing_rows"] == "equal"
    assert found["existing_contents"] == f"equal on 2 dates: {YESTERDAY}, {TODAY}"
    assert "existing_unchanged" in found
    services = maintained.services
    assert list(services.store.objects(export_folder(services, record.attempt))) == []
    assert services.manifests.files_exist(services.manifests.read(1))


def test_the_next_snapshot_is_published_on_top_and_a_rollback_goes_back_to_what_was_taken_over(
    maintained: FeedOnStandIn,
) -> None:
    steps.bootstrap(maintained)
    record = maintained.publish(maintained.land(9, [row(9, 2, 30), row(9, 5)]))
    assert maintained.rows() == expected(row(8, 1, 99), row(9, 2, 30), row(8, 4), row(9, 5), row(7, 3, day=YESTERDAY))
    assert (record.generation, record.parent, record.new_rows, record.changed_rows) == (2, 1, 1, 1)
    record = maintained.roll_back(1)
    assert maintained.rows() == expected(*MAINTAINED)
    assert (record.restores, record.snapshot_id, record.lag_s) == (1, 8, None)


@pytest.mark.exhaustive
def test_a_snapshot_older_than_the_table_only_fills_what_it_lacks_and_a_dry_run_says_so(
    maintained: FeedOnStandIn,
) -> None:
    waiting = maintained.land(6, [row(6, 1, 1), row(6, 9)])
    steps.bootstrap(maintained)
    found = dry_run(maintained.services, maintained.publish_request(waiting))
    assert found.effect.startswith("older than snapshot 8, which is live: only fills gaps")
    maintained.publish(waiting)
    assert maintained.rows() == expected(*MAINTAINED, row(6, 9))


def test_another_table_is_taken_over_and_stays_as_it_is(world: FeedOnStandIn) -> None:
    source = f"{world.feed.feed}_merged"
    steps.create_table(world, source)
    steps.insert(world, source, MAINTAINED)
    steps.bootstrap(world, source_table=f"warehouse.{source}")
    assert world.rows() == world.rows(source) == expected(*MAINTAINED)
    steps.insert(world, source, [row(9, 9)])
    assert world.rows() == expected(*MAINTAINED)


@pytest.mark.exhaustive
def test_a_rollback_to_what_was_taken_over_that_died_is_told_in_the_ledger(maintained: FeedOnStandIn) -> None:
    steps.bootstrap(maintained)
    maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    resolve_rollback(maintained.services, RollbackRequest(ROLLBACK_DAG, "back", 1, 2, "bad"))
    recover(maintained.services, dag_id="other", run_id="other")
    record = maintained.services.ledger.read_last(1)[0]
    assert (record.outcome, record.restores, record.snapshot_id) == (Outcome.FAILED, 1, 8)
    assert not record.is_bootstrap


@pytest.mark.exhaustive
def test_readers_of_the_ledger_know_it_from_a_publish(maintained: FeedOnStandIn) -> None:
    steps.bootstrap(maintained)
    services = maintained.services
    index = IndexFile(services.store, services.feed.feed).read().index
    assert index
    assert publish_kinds(index) == {1: PublishKind.BOOTSTRAP}
    assert [g.snapshot_id for g in index.generations] == [8]
    state = read_feed_state(
        services,
        watch_dag=DagActivity("a_watch", False, True, None, None),
        publish_dag=None,
        find_given_up_run=lambda waiting: None,
        check_interval=timedelta(minutes=1),
    )
    assert (state.live.generation if state.live else None, state.arrivals, state.waiting) == (1, (), ())
    verdict = evaluate(services.now(), state)
    assert verdict.headline == "Readers see the table that was taken over, up to update id 8."
    maintained.write_reporting_tables()
    for table, columns in (("dedup_clone_status", "snapshot_id"), ("dedup_clone_ledger", "ARRAY_LENGTH(deliveries)")):
        sql = f"SELECT {columns} FROM warehouse.{table} WHERE feed = '{services.feed.feed}'"
        assert [r[0] for r in maintained.bigquery.query_and_wait(sql)] == [8 if columns == "snapshot_id" else 0]


@pytest.mark.exhaustive
def test_some_dates_of_a_snapshot_can_be_replayed_on_top(maintained: FeedOnStandIn) -> None:
    steps.bootstrap(maintained)
    name = maintained.land(9, [row(9, 2, 30), row(9, 3, 31, day=YESTERDAY)])
    record = maintained.publish(name, replay=True, run_id="by hand", dates=(YESTERDAY,))
    assert (record.snapshot_id, record.deliveries) == (8, ())
    shown = dry_run(maintained.services, maintained.publish_request(name))
    assert shown.changes_target


def test_rows_that_staging_got_wrong_are_not_swapped_in(maintained: FeedOnStandIn) -> None:
    spec = steps.until_load(maintained)
    maintained.bigquery.query_and_wait(
        f"UPDATE warehouse.{maintained.feed.staging} SET attr_value = 1 WHERE product_id = 4 AND date = '{TODAY}'"
    )
    with pytest.raises(CheckFailed, match=r"existing_contents.*rows="):
        maintained.check(spec)
    assert maintained.live() is None


# ---- what is refused, and what is told before ----


def test_the_preview_tells_what_would_be_exported_loaded_and_billed(maintained: FeedOnStandIn) -> None:
    waiting = maintained.land(9, [row(9, 2, 30)])
    shown = steps.preview(maintained)
    assert (shown.rows, shown.dates, shown.expired_rows, shown.surplus_rows) == (4, 2, 0, 0)
    assert shown.refused == ()
    assert shown.exported_bytes == 4 * 6 * 8
    assert shown.compared_bytes == 2 * shown.exported_bytes
    for part in ("4 rows in 2 dates", "no key twice", "free", "Billed", f"Waiting now: {waiting}"):
        assert part in shown.text
    assert maintained.services.current.read().intent is None
    assert maintained.services.warehouse.table(maintained.feed.staging) is None


def test_keys_are_not_counted_before_where_that_would_read_more_than_is_allowed(maintained: FeedOnStandIn) -> None:
    shown = steps.preview(maintained, scan_limit=10)
    assert shown.surplus_rows is None
    assert shown.count_bytes == 4 * 4 * 8
    assert f"would read {shown.count_bytes} bytes" in shown.text


@pytest.fixture
def doubled(maintained: FeedOnStandIn) -> FeedOnStandIn:
    """Keys that the table holds more than once: two ids, and two values of one id."""
    steps.insert(maintained, maintained.feed.target, [row(7, 1, 500), row(8, 4, 21), row(8, 4, 19)])
    return maintained


def test_duplicates_are_shown_with_their_dates_and_keys(doubled: FeedOnStandIn) -> None:
    shown = steps.preview(doubled)
    assert shown.surplus_rows == 3
    (refused,) = shown.refused
    assert "[3] rows whose key another row has" in refused
    assert f"{TODAY}: 3, such as" in refused
    assert "product_id=4, store_id=2072, attribute_id=1" in refused
    assert "It would be refused" in shown.text


@pytest.mark.exhaustive
def test_duplicates_whose_key_has_a_null_are_shown(doubled: FeedOnStandIn) -> None:
    """Source: aggregate_functions, ARRAY_AGG: no NULL element in an array of a result."""
    doubled.bigquery.query_and_wait(f"UPDATE warehouse.{doubled.feed.target} SET store_id = NULL WHERE TRUE")
    assert "a key with a NULL" in steps.preview(doubled).text


def test_duplicates_end_the_run_and_change_nothing(doubled: FeedOnStandIn) -> None:
    before = doubled.rows()
    spec = steps.begin(doubled)
    export_existing(doubled.services, spec.attempt)
    doubled.deduplicate(spec)
    with pytest.raises(BootstrapRefused, match=r"\[3\] rows whose key another row has"):
        doubled.load(spec)
    assert doubled.rows() == before
    services = doubled.services
    assert services.current.read().intent is None
    (record,) = services.ledger.read_last(9)
    assert (record.outcome, record.is_bootstrap, record.snapshot_id) == (Outcome.REFUSED, True, 0)
    assert services.arrivals.refused() == []


@pytest.mark.exhaustive
def test_duplicates_are_resolved_as_the_feed_would_when_asked_to(doubled: FeedOnStandIn) -> None:
    record = steps.bootstrap(doubled, duplicates=Duplicates.KEEP_LATEST)
    assert [r for r in doubled.rows() if r[1] != 4] == expected(*[r for r in MAINTAINED if r["product_id"] != 4])
    assert record.ties == 3
    results = {i.check: i.found for i in read_check_results(doubled.services, record.attempt, "before").items}
    assert "3 rows with a repeated key were left out" in results["existing_rows"]
    assert results["existing_contents"] == f"equal on 1 dates: {YESTERDAY}"


def create_without_expiration(world: FeedOnStandIn, name: str, columns: str = COLUMNS, layout: str = "") -> None:
    layout = layout or f"PARTITION BY date CLUSTER BY {', '.join(world.feed.table.cluster_by)}"
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{name} ({columns}) {layout}")


def test_rows_older_than_the_retention_have_to_be_given_up_in_words(world: FeedOnStandIn) -> None:
    old = TODAY - timedelta(days=world.feed.table.retention_days)
    create_without_expiration(world, world.feed.target)
    steps.insert(world, world.feed.target, [*MAINTAINED, row(7, 8, day=old)])
    shown = steps.preview(world)
    (refused,) = shown.refused
    assert f"[1] rows in [1] dates before [{old + timedelta(days=1)}]" in refused
    assert "drop_expired" in refused
    with pytest.raises(BootstrapRefused, match="drop_expired"):
        resolve_bootstrap(world.services, steps.bootstrap_request(), shown.version)
    record = steps.bootstrap(world, drop_expired=True)
    assert world.rows() == expected(*MAINTAINED)
    assert f"without [1] rows before [{old + timedelta(days=1)}]" in record.reason


UNFIT: dict[str, tuple[dict[str, str], str]] = {
    "not partitioned": ({"layout": "CLUSTER BY product_id"}, r"partitioned by \[no column\].*expected by \[date\]"),
    "clustered otherwise": ({"layout": "PARTITION BY date CLUSTER BY attr_value"}, r"clustered by \[attr_value\]"),
    "a column too many": ({"columns": COLUMNS + ", note STRING"}, r"column \[note\] is not in the feed's file"),
    "a column too few": ({"columns": COLUMNS.replace(" attr_value INT64,", "")}, r"column \[attr_value\] is missing"),
    "another type": (
        {"columns": COLUMNS.replace("attr_value INT64", "attr_value STRING")},
        r"column \[attr_value\] is STRING, expected INT64",
    ),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_table_that_the_feed_does_not_describe_is_refused(world: FeedOnStandIn, unfit: str) -> None:
    changes, words = UNFIT[unfit]
    create_without_expiration(world, world.feed.target, **changes)
    with pytest.raises(BootstrapRefused, match=words):
        steps.preview(world)


def test_rows_without_a_date_and_of_the_future_are_refused(maintained: FeedOnStandIn) -> None:
    later = TODAY + timedelta(days=3)
    steps.insert(maintained, maintained.feed.target, [{**row(8, 5), "date": None}, row(8, 6, day=later)])
    with pytest.raises(BootstrapRefused) as refused:
        steps.preview(maintained)
    assert "column [date]: 1 rows are [NULL]" in str(refused.value)
    assert f"column [date]: 1 rows have dates after [{TODAY + timedelta(days=1)}]" in str(refused.value)


def test_a_view_and_a_table_with_a_partition_a_month_are_refused(maintained: FeedOnStandIn) -> None:
    table = maintained.services.warehouse.table(maintained.feed.target)
    assert table
    assert table_problems(maintained.services, table, is_target=True) == []
    (view,) = table_problems(maintained.services, replace(table, kind="VIEW"), is_target=True)
    assert view == "it is a [VIEW], expected a table: copy its rows into one, and name that"
    (monthly,) = table_problems(maintained.services, replace(table, granularity="MONTH"), is_target=True)
    assert "partitioned by [date] ([MONTH]), expected by [date] ([DAY])" in monthly


def test_an_absent_table_and_a_wrong_name_are_refused(maintained: FeedOnStandIn) -> None:
    with pytest.raises(BootstrapRefused, match=r"nowhere\] does not exist.*land the first snapshot"):
        steps.preview(maintained, source_table="nowhere")
    with pytest.raises(ConfigurationError, match=r"no table's name, expected \[TABLE\] or \[DATASET.TABLE\]"):
        steps.preview(maintained, source_table="a.b.c.d")


def test_an_empty_table_is_refused_with_what_to_do_instead(world: FeedOnStandIn) -> None:
    steps.create_table(world, world.feed.target)
    with pytest.raises(BootstrapRefused, match="land the first snapshot instead"):
        steps.preview(world)


def test_another_table_is_refused_while_target_exists(maintained: FeedOnStandIn) -> None:
    source = f"{maintained.feed.feed}_merged"
    steps.create_table(maintained, source)
    with pytest.raises(BootstrapRefused, match=r"target .* exists, and another table is to be taken over"):
        steps.preview(maintained, source_table=source)


def test_a_table_in_another_location_is_refused(maintained: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_clone.warehouse.bigquery.Warehouse.location", "EU")
    with pytest.raises(BootstrapRefused, match=r"lies in \[US\], expected \[EU\]"):
        steps.preview(maintained)


def test_a_feed_that_publishes_already_is_refused(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, SNAPSHOT_7))
    with pytest.raises(BootstrapRefused, match=r"publishes already \(generation \[1\]\)"):
        steps.preview(world)


def test_policies_that_the_feed_does_not_declare_would_be_lost(maintained: FeedOnStandIn) -> None:
    maintained.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY some_rows ON warehouse.{maintained.feed.target} "
        "GRANT TO ('group:stores@example.com') FILTER USING (store_id = 2072)"
    )
    with pytest.raises(BootstrapRefused, match=r"row access policies \['some_rows'\].*declare them"):
        steps.preview(maintained)


# ---- changes, crashes, others at work ----


def change(world: FeedOnStandIn) -> None:
    steps.insert(world, world.feed.target, [row(9, 10)])


def test_a_table_that_was_changed_after_it_was_shown_is_refused(maintained: FeedOnStandIn) -> None:
    shown = steps.preview(maintained)
    change(maintained)
    with pytest.raises(BootstrapRefused, match="was changed since it was shown"):
        resolve_bootstrap(maintained.services, steps.bootstrap_request(), shown.version)
    assert maintained.services.current.read().intent is None


def test_a_table_that_is_changed_during_the_export_is_refused(maintained: FeedOnStandIn) -> None:
    spec = steps.begin(maintained)
    change(maintained)
    with pytest.raises(BootstrapRefused, match="was changed since its metadata was read"):
        export_existing(maintained.services, spec.attempt)


def test_a_table_that_is_changed_before_the_swap_is_not_replaced(maintained: FeedOnStandIn) -> None:
    spec = steps.until_load(maintained)
    maintained.check(spec)
    change(maintained)
    existing = read_bootstrap_record(maintained.services, spec.attempt).existing
    with pytest.raises(BootstrapRefused, match="was changed"):  # the swap task looks once more
        require_unchanged(maintained.services, existing)
    with pytest.raises(CheckFailed, match="existing_unchanged"):
        maintained.check(spec)
    assert maintained.rows() == expected(*MAINTAINED, row(9, 10))


def swapped(world: FeedOnStandIn, spec: PublishSpec) -> None:
    world.swap(spec, world.check(spec))


STEPS: list[Callable[[FeedOnStandIn, PublishSpec], object]] = [
    lambda world, spec: export_existing(world.services, spec.attempt),
    lambda world, spec: world.deduplicate(spec),
    lambda world, spec: world.load(spec),
    swapped,
]


@pytest.mark.parametrize(
    "done",
    [len(STEPS), *(pytest.param(done, marks=pytest.mark.exhaustive) for done in range(4))],
)
def test_a_bootstrap_that_died_is_recovered_and_the_next_goes_on(maintained: FeedOnStandIn, done: int) -> None:
    spec = steps.begin(maintained)
    for step in STEPS[:done]:
        step(maintained, spec)
    has_swapped = done == len(STEPS)
    recover(maintained.services, dag_id="other", run_id="other")
    assert maintained.rows() == expected(*MAINTAINED)
    assert maintained.live() == ("1" if has_swapped else None)
    assert maintained.services.current.read().intent is None
    if not has_swapped:
        with pytest.raises(LostRace):
            maintained.check(spec)
        assert steps.bootstrap(maintained, run_id="again").generation == 2
    maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    assert maintained.rows() == expected(row(8, 1, 99), row(9, 2, 30), row(8, 4), row(7, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_every_step_may_be_done_twice(maintained: FeedOnStandIn) -> None:
    spec = steps.begin(maintained)
    for step in STEPS[:3]:
        step(maintained, spec)
    export_existing(maintained.services, spec.attempt)
    checked = maintained.check(spec)
    assert replace(maintained.check(spec), checked_at=checked.checked_at) == checked
    maintained.swap(spec, checked)
    assert maintained.commit(spec) == maintained.commit(spec)


def test_a_publish_and_a_bootstrap_keep_each_other_out(maintained: FeedOnStandIn) -> None:
    steps.begin(maintained)
    maintained.running.add("bootstrap")
    with pytest.raises(LeaseHeld, match=r"bootstrap.*bootstrap, generation 1"):
        maintained.resolve(maintained.land(9, [row(9, 2, 30)]))


def test_a_publish_does_not_replace_a_table_that_nobody_took_over(maintained: FeedOnStandIn) -> None:
    with pytest.raises(CheckFailed, match=r"target_is_parent.*bootstrap the feed"):
        maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    assert maintained.rows() == expected(*MAINTAINED)
