"""Bootstrap: a table that other software maintained becomes the first generation, and the next snapshot goes on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery.table import PrimaryKey, TableConstraints

from bigquery_standin.client import STAND_IN_USER
from dedup_clone.contract.errors import BootstrapRefused, CheckFailed
from dedup_clone.settings.table_settings import PolicySettings
from testkit import deliveries, operations, runs, step_faults
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row, today
from testkit.server_clients import FINE_GRAINED_READ
from tests.contract.publish.existing_tables import (
    KEYS,
    MAINTAINED,
    column,
    create_table,
    describe,
    insert,
    maintain,
    with_columns,
)

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"


def copy_to_target(world: FeedOnStandIn, source: str) -> None:
    """Copy a table, with its policies. BigQuery's copy job does the same without a query."""
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{world.feed.target} CLONE warehouse.{source}")


def preview(world: FeedOnStandIn, **form: object) -> str:
    return runs.bootstrap(world, **form).until("preview").text


def test_a_table_taken_over_with_equal_contents_and_later_runs_build_on_it(maintained: FeedOnStandIn) -> None:
    older = maintained.land(6, [row(6, 1, 1), row(6, 9)])
    run = runs.bootstrap(maintained, reason="from now on by clones").until("export")
    run.step("export")  # as when a task is cleared
    record = run.finish()
    assert maintained.rows() == expected(*MAINTAINED)
    assert maintained.live() == "1"
    target = maintained.bigquery.get_table(f"warehouse.{maintained.feed.target}")
    assert target.clone_definition.base_table_reference.table_id == maintained.feed.staging
    assert target.labels["dedup_clone_snapshot"] == "8"
    assert (record.outcome, record.generation, record.parent, record.snapshot_id) == ("published", 1, None, 8)
    assert (record.rows, record.deliveries, record.lag_s, record.kind) == (4, (), None, "bootstrap")
    assert record.reason.endswith("duplicates [refuse]: from now on by clones")
    found = maintained.state.checks(run.attempt)
    assert found["existing_rows"]["found"] == "equal"
    assert found["existing_contents"]["found"] == f"equal on 2 dates: {YESTERDAY}, {TODAY}"
    assert maintained.state.names(f"data/{run.attempt}-export") == []
    (shown,) = operations.page(maintained)["publishes"]
    assert (shown["generation"], shown["snapshot_id"], shown["kind"]) == (1, "8", "bootstrap")

    # A snapshot older than the table only fills what it lacks.
    assert "older than snapshot 8, which is live: only fills gaps" in deliveries.dry_run_of(maintained, older)
    # Some dates of a later snapshot can be replayed on top, which leaves the snapshot itself waiting.
    name = maintained.land(9, [row(9, 2, 30), row(9, 3, 31, day=YESTERDAY)])
    partial = maintained.publish(name, replay=True, run_id="by hand", dates=(YESTERDAY,))
    assert (partial.snapshot_id, partial.deliveries, partial.taken_over) == (8, (), True)
    after = maintained.publish(name)
    assert maintained.rows() == expected(
        row(8, 1, 99), row(9, 2, 30), row(8, 4), row(9, 3, 31, day=YESTERDAY), row(6, 9)
    )
    assert (after.generation, after.parent, after.taken_over) == (3, 2, False)
    back = maintained.roll_back(1)
    assert maintained.rows() == expected(*MAINTAINED)
    assert (back.restores, back.snapshot_id, back.lag_s, back.taken_over) == (1, 8, None, True)


def test_a_rollback_to_what_was_taken_over_that_died_is_reported_in_the_ledger(maintained: FeedOnStandIn) -> None:
    taken_over = runs.bootstrap(maintained).finish()
    maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    runs.rollback(maintained, 1).until("resolve")
    operations.recover_lease(maintained)
    record = maintained.state.ledger()[-1]
    assert (record["kind"], record["outcome"], record["stage"]) == ("rollback", "failed", "load")
    assert (record["restores"], record["snapshot_id"]) == (1, 8)
    assert maintained.roll_back(1).arrived_at == taken_over.arrived_at


def test_a_table_of_another_name_is_copied_first_and_stays_as_it_is(world: FeedOnStandIn) -> None:
    source = maintain(world, f"{world.feed.feed}_merged")
    with pytest.raises(BootstrapRefused, match=rf"bq cp -n DATASET\.TABLE warehouse\.{world.feed.target}"):
        preview(world)
    copy_to_target(world, source)
    runs.bootstrap(world).finish()
    assert world.rows() == world.rows(source) == expected(*MAINTAINED)
    insert(world, [row(9, 9)], source)
    assert world.rows() == expected(*MAINTAINED)


def test_rows_that_staging_got_wrong_are_not_swapped_in(maintained: FeedOnStandIn) -> None:
    run = runs.bootstrap(maintained).until("load")
    maintained.bigquery.query_and_wait(
        f"UPDATE warehouse.{maintained.feed.staging} SET attr_value = 1 WHERE product_id = 4 AND date = '{TODAY}'"
    )
    with pytest.raises(CheckFailed, match="existing_contents"):
        run.until("check")
    assert maintained.live() is None


@pytest.mark.parametrize(
    ("done", "refused"),
    [("preview", "resolve"), ("resolve", "export"), ("check", "swap")],
)
def test_a_table_that_is_changed_meanwhile_is_not_replaced(maintained: FeedOnStandIn, done: str, refused: str) -> None:
    run = runs.bootstrap(maintained).until(done)
    insert(maintained, [row(9, 10)])
    with pytest.raises(BootstrapRefused):
        run.until(refused)
    assert maintained.rows() == expected(*MAINTAINED, row(9, 10))
    assert maintained.live() is None


def test_the_preview_tells_what_would_be_exported_loaded_and_billed(maintained: FeedOnStandIn) -> None:
    waiting = maintained.land(9, [row(9, 2, 30)])
    first, middle = (TODAY - timedelta(days=days) for days in (9, 3))
    insert(maintained, [row(7, 5, day=first), row(7, 6, day=middle), row(7, 7, day=first + timedelta(days=1))])
    text = preview(maintained)
    counted = 7 * 4 * 8  # the key columns of seven rows
    for part in ("7 rows in 5 dates", f"no key twice; the query for that read {counted} bytes, 0.00 USD", waiting):
        assert part in text
    assert f"all columns: 3 dates ({first}, {middle}, {TODAY})" in text
    with step_faults.queries_that_read(100 << 30):
        assert "no key twice; the query for that read 100.0 GiB, 0.6" in preview(maintained)
    with step_faults.queries_that_read((100 << 30) + 1):
        assert "not counted, because the query would read 100.0 GiB" in preview(maintained)
    assert maintained.state.lease is None
    assert "product_id=" not in text


@pytest.fixture
def doubled(maintained: FeedOnStandIn) -> FeedOnStandIn:
    """Keys that the table holds more than once: two ids, and two values of one id."""
    insert(maintained, [row(7, 1, 500), row(8, 4, 21), row(8, 4, 19)])
    return maintained


def test_duplicates_are_shown_and_end_the_run_which_changes_nothing(doubled: FeedOnStandIn) -> None:
    before = doubled.rows()
    with pytest.raises(BootstrapRefused, match=rf"\({TODAY}: 3\)") as refused:
        preview(doubled)
    assert "product_id=" not in str(refused.value), "a preview shows no key"
    with step_faults.queries_that_read(1 << 40):
        uncounted = runs.bootstrap(doubled).until("preview")
    with pytest.raises(BootstrapRefused):
        uncounted.until("dedup")
    assert (doubled.rows(), doubled.state.lease) == (before, None)
    (record,) = doubled.state.ledger()
    assert (record["kind"], record["outcome"], record["stage"]) == ("bootstrap", "refused", "dedup")
    assert record["snapshot_id"] == 0
    assert doubled.state.deliveries("refused") == []
    run = runs.bootstrap(doubled, run_id="again", duplicates="keep_latest")
    assert run.finish().ties == 3
    assert [r for r in doubled.rows() if r[1] != 4] == expected(*[r for r in MAINTAINED if r["product_id"] != 4])
    assert doubled.state.checks(run.attempt)["existing_contents"]["found"] == f"equal on 1 dates: {YESTERDAY}"


def test_duplicates_whose_key_has_a_null_are_counted(doubled: FeedOnStandIn) -> None:
    doubled.bigquery.query_and_wait(f"UPDATE warehouse.{doubled.feed.target} SET store_id = NULL WHERE TRUE")
    assert f"({TODAY}: 3)" in preview(doubled, duplicates="keep_latest")


def test_rows_older_than_the_retention_are_left_out_and_named_before_the_approval(world: FeedOnStandIn) -> None:
    create_table(world, expiration_days=None)
    insert(world, [*MAINTAINED, row(7, 8, day=today() - timedelta(days=730))])
    assert f"[1] rows in [1] dates before [{today() - timedelta(days=729)}]" in preview(world)
    record = runs.bootstrap(world).finish()
    assert world.rows() == expected(*MAINTAINED)
    assert "without [1] rows" in record.reason


def rows_without_a_date(world: FeedOnStandIn) -> None:
    maintain(world)
    insert(world, [{**row(8, 5), "date": None}])


def a_feed_that_publishes(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))


def a_parameterized_type(world: FeedOnStandIn) -> None:
    maintain(world)
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.schema = [*table.schema, SchemaField("note", "STRING", max_length=10)]
    world.bigquery.update_table(table, ["schema"])


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (create_table, "land the first snapshot instead"),  # it has no row
        (a_feed_that_publishes, "publishes already"),
        (rows_without_a_date, "__NULL__"),
        (a_parameterized_type, "note"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_before_the_lease(
    world: FeedOnStandIn, prepare: Callable[[FeedOnStandIn], object], words: str
) -> None:
    prepare(world)
    with pytest.raises(BootstrapRefused, match=words):
        preview(world)
    assert world.state.lease is None


@pytest.fixture
def protected(world: FeedOnStandIn) -> Iterator[FeedOnStandIn]:
    """Target is a copy of a table with row access policies and a policy tag. This client may read all of it."""
    source = maintain(world, f"{world.feed.feed}_merged")
    policies = {"all_rows": (STAND_IN_USER, "TRUE"), "some_rows": ("group:stores@example.com", "store_id = 2072")}
    for name, (member, rows) in policies.items():
        world.bigquery.query_and_wait(
            f"CREATE ROW ACCESS POLICY {name} ON warehouse.{source} GRANT TO ('{member}') FILTER USING ({rows})"
        )
    describe(world, source, policyTags={"names": [TAG]})
    world.control.grant(FINE_GRAINED_READ)
    copy_to_target(world, source)
    yield world
    world.control.clear_grants()


def test_policies_that_the_feed_file_lacks_are_refused_before_the_approval(protected: FeedOnStandIn) -> None:
    """Else readers of target would see what the table hides from them."""
    with pytest.raises(BootstrapRefused) as refused:
        preview(protected)
    assert "Not taken over: row access policies [all_rows, some_rows]" in str(refused.value)
    assert f"Not taken over: policy tags of columns [attr_value: {TAG}]" in str(refused.value)
    policies = PolicySettings(row_access=("all_rows", "some_rows"), column_tags={"attr_value": TAG})
    table = protected.feed.table.model_copy(update={"policies": policies})
    protected.feed = protected.feed.model_copy(update={"table": table})
    assert "4 rows in 2 dates" in preview(protected)


def test_policies_that_may_not_be_listed_are_not_taken_for_absent(
    protected: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Forbidden("Permission bigquery.rowAccessPolicies.list denied")

    monkeypatch.setattr("dedup_clone.warehouse.bigquery.Warehouse.policies", refuse)
    with pytest.raises(BootstrapRefused, match=rf"Not known: whether \[{protected.feed.target}\] has row access"):
        preview(protected)


def test_what_the_table_has_besides_rows_is_declared_or_refused_before_the_approval(maintained: FeedOnStandIn) -> None:
    table = maintained.bigquery.get_table(f"warehouse.{maintained.feed.target}")
    table.labels, table.friendly_name, table.description = {"team": "stores"}, "Attributes", "What MERGE has made."
    table.table_constraints = TableConstraints(PrimaryKey(list(KEYS)), None)
    table.expires = datetime.now(UTC) + timedelta(days=9)
    maintained.bigquery.update_table(table, ["labels", "friendly_name", "description", "table_constraints", "expires"])
    describe(maintained, maintained.feed.target, description="What a shop measured.")
    with pytest.raises(BootstrapRefused) as refused:
        preview(maintained)
    lost = ("label [team]", "friendly name", "primary key", "description of column [attr_value]", "table_expiration")
    assert [words for words in lost if words not in str(refused.value)] == []
    measured = column("attr_value", "INT64", description="What a shop measured.")
    maintained.feed = with_columns(maintained.feed, attr_value=measured)
    options = {"labels": {"team": "stores"}, "friendly_name": "Attributes"}
    maintained.configure(table={"primary_key": True, "options": options})
    maintained.bigquery.query_and_wait(
        f"ALTER TABLE warehouse.{maintained.feed.target} SET OPTIONS (expiration_timestamp = NULL)"
    )
    runs.bootstrap(maintained).finish()
    found = maintained.bigquery.get_table(f"warehouse.{maintained.feed.target}")
    assert (found.labels["team"], found.friendly_name) == ("stores", "Attributes")
    assert found.description.startswith(maintained.feed.description)
    assert found.table_constraints.primary_key.columns == list(KEYS)
    assert found.schema[4].description == "What a shop measured."
