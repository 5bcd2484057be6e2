"""Erasure: the rows of named keys leave target, staging and state, and no snapshot brings them back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.erasure import Erasure, parse_keys
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation, JobFailed
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.page.restore_options import generation_view
from dedup_clone.publish.erasure.key_hashes import key_text
from dedup_clone.publish.erasure.preview_erasure import preview_erasure
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest, resolve_erasure
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.rollback.resolve_rollback import restorable_generations
from dedup_clone.settings.check_settings import CheckSettings, SqlCheck
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from dedup_clone.warehouse.row_text_sql import row_text
from devstack.producer.declared_snapshots import schema
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import ERASE_DAG, KEYS_FILE, YESTERDAY, FeedOnStandIn, expected, row
from testkit.server_clients import open_clients
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.value_search import Value, contains
from tests.contract.new_feeds import new_feed
from tests.contract.publish.changes_rows import ledger_figures

PERSON = 1_234_567_890_123_456_789  # a key that no other number resembles
KEYS = f"product_id,store_id\n{PERSON},2072\n"
FIRST = [row(7, 1), row(7, PERSON), row(7, PERSON, day=YESTERDAY), row(7, 3, day=YESTERDAY)]
LEFT = [row(7, 1), row(7, 3, day=YESTERDAY)]


@pytest.fixture
def published(world: FeedOnStandIn, real_dedup: SparkDedupProcess) -> FeedOnStandIn:
    world.dedup = real_dedup
    world.publish(world.land(7, FIRST))
    return world


def certificate(world: FeedOnStandIn, generation: int) -> Erasure:
    record = world.services.store.read_record(Erasure, world.services.layout.erasure(generation))
    assert record
    return record


def names(world: FeedOnStandIn, folder: str = "") -> list[str]:
    return [info.name for info in world.services.store.objects(f"{world.feed.feed}/{folder}")]


def test_an_erasure_is_a_generation_without_the_rows_and_leaves_nothing_of_earlier_ones(
    published: FeedOnStandIn,
) -> None:
    published.feed = published.feed.model_copy(update={"changes": True})
    changed = published.publish(published.land(8, [row(8, 1), row(8, PERSON, 30), row(8, 3, 30, day=YESTERDAY)]))
    assert changed.change_rows == 3
    other = published.services.layout.keys_to_erase(f"{KEYS_FILE}.next")
    published.services.store.put(other, KEYS)
    record = published.erase(KEYS)
    left = expected(row(8, 1), row(8, 3, 30, day=YESTERDAY))
    assert published.rows() == published.rows(published.feed.staging) == left
    assert (record.generation, record.parent, record.snapshot_id, record.erased_rows) == (3, 2, 8, 2)
    assert (record.is_erasure, record.is_replay, record.lag_s, record.reason) == (True, False, None, "request 7")
    assert (record.deliveries, record.shares["new_share"]) == ((), 0.0)
    found = certificate(published, 3)
    assert found.rows == {FIRST[0]["date"]: 1, YESTERDAY: 1}
    tables = (published.feed.target, published.feed.staging, f"{published.feed.feed}_changes")
    assert found.tables == tuple(f"local-dev.warehouse.{table}" for table in tables)
    assert found.change_rows == 2
    assert found.deleted_at
    assert found.time_travel_ends == found.deleted_at + timedelta(days=7)
    assert found.fail_safe_ends == found.time_travel_ends + timedelta(days=7)
    assert found.versions_end
    assert {uri.split("/")[4] for uri in found.deleted_folders} == {"data", "attempts"}
    assert found.folders_to_delete == ()
    folders = {"/".join(name.split("/")[:3]) for name in (*names(published, "data/"), *names(published, "attempts/"))}
    attempt = published.services.manifests.read(3).attempt
    assert folders == {f"{published.feed.feed}/{kind}/{attempt}" for kind in ("data", "attempts")}
    assert names(published, "to_erase/") == [other]
    changes = published.bigquery.query_and_wait(f"SELECT product_id FROM warehouse.{published.feed.feed}_changes")
    assert [r["product_id"] for r in changes] == [3]
    assert ledger_figures(published) == [(1, None), (2, None), (3, None)]  # a follower must not wait for 3 rows
    name = published.land(9, FIRST)
    with pytest.raises(ConfigurationError, match="is not supported after an erasure"):
        published.resolve(name, replay=True, engine=Engine.MERGE, reason="test")


def test_a_certificate_claims_no_deletion_before_it_is_done_and_belongs_to_its_run(published: FeedOnStandIn) -> None:
    published.feed = published.feed.model_copy(update={"changes": True})
    published.publish(published.land(8, [row(8, 1, 30), row(8, PERSON, 30), row(8, 3, 30, day=YESTERDAY)]))
    fail_jobs(published, "erase_changes")
    with pytest.raises(JobFailed):
        published.erase(KEYS)
    claimed = certificate(published, 3)
    assert (claimed.deleted_at, claimed.deleted_folders, claimed.change_rows) == (None, (), None)
    assert (claimed.time_travel_ends, claimed.fail_safe_ends, claimed.versions_end) == (None, None, None)
    assert {uri.split("/")[4] for uri in claimed.folders_to_delete} == {"data", "attempts"}

    published.erase("product_id\n3\n", run_id="second")
    assert certificate(published, 4).change_rows == 1
    assert certificate(published, 3) == claimed
    with pytest.raises(ConfigurationError, match="There is no file of keys"):
        published.delete_leftovers()
    published.services.store.put(published.services.layout.keys_to_erase(KEYS_FILE), KEYS)
    published.now = lambda: claimed.erased_at + timedelta(days=2)
    published.delete_leftovers()
    found = certificate(published, 3)
    assert (found.deleted_at, found.change_rows) == (claimed.erased_at + timedelta(days=2), 2)
    assert set(found.deleted_folders) >= set(claimed.folders_to_delete)
    assert names(published, "to_erase/") == []
    published.delete_leftovers()
    assert certificate(published, 3) == found
    with pytest.raises(ContractViolation, match="has erased nothing"):
        published.delete_leftovers(run_id="another")


@pytest.mark.exhaustive
def test_the_rows_leave_the_table_of_changes_and_what_it_lacks_is_not_loaded(published: FeedOnStandIn) -> None:
    name = f"{published.feed.feed}_changes"
    published.feed = published.feed.model_copy(update={"changes": True})
    published.publish(published.land(8, [row(8, 1), row(8, PERSON, 30), row(8, 3, 30, day=YESTERDAY)]))
    fail_jobs(published, "changes", times=2)
    published.publish(published.land(9, [row(9, 1), row(9, PERSON, 31), row(9, 3, 31, day=YESTERDAY)]))
    found = published.bigquery.query_and_wait(f"SELECT product_id, change_type FROM warehouse.{name} ORDER BY 1, 2")
    assert [tuple(r.values()) for r in found] == [(3, "changed"), (PERSON, "changed"), (PERSON, "missing")]
    assert ledger_figures(published) == [(1, None), (2, 3), (3, 2)]
    record = published.erase(KEYS)
    assert record.change_rows is None
    assert ledger_figures(published) == [(1, None), (2, None), (3, None), (4, None)]
    found = published.bigquery.query_and_wait(f"SELECT product_id, generation FROM warehouse.{name}")
    assert [tuple(r.values()) for r in found] == [(3, 2)]
    assert names(published, "changes/") == []
    published.publish(published.land(10, [row(10, 1), row(10, PERSON, 32), row(10, 3, 31, day=YESTERDAY)]))
    assert PERSON not in {r["product_id"] for r in published.bigquery.query_and_wait(f"SELECT * FROM warehouse.{name}")}


def test_what_the_swap_would_remove_stops_an_erasure_before_its_approval_and_its_spark_job(
    published: FeedOnStandIn,
) -> None:
    name = f"local-dev.warehouse.{published.feed.target}"
    table = published.bigquery.get_table(name)
    table.labels["team"] = "stores"
    published.bigquery.update_table(table, ["labels"])
    published.services.store.put(published.services.layout.keys_to_erase(KEYS_FILE), KEYS)
    request = ErasureRequest(ERASE_DAG, "erase", KEYS_FILE, "request 7")
    for step in (
        lambda: preview_erasure(published.services, request, 1 << 30),
        lambda: resolve_erasure(published.services, request),
    ):
        with pytest.raises(CheckFailed, match=r"target_options: \[label \[team\]: stores\]"):
            step()
    assert published.services.current.read().intent is None
    checks = published.feed.checks.model_copy(update={"sql": (SqlCheck(name="no_file_was_read"),)})
    published.feed = published.feed.model_copy(update={"checks": checks})
    table = published.bigquery.get_table(name)
    table.labels["team"] = None
    published.bigquery.update_table(table, ["labels"])
    assert preview_erasure(published.services, request, 1 << 30).keys == 1  # no query of the feed can stop it


def test_replayed_and_later_snapshots_do_not_bring_a_key_back(published: FeedOnStandIn) -> None:
    (delivery,) = [d.name for d in published.services.arrivals.deliveries()]
    published.erase(KEYS)
    published.publish(delivery, replay=True, plan="rewrite", run_id="again", reason="test")
    assert published.rows() == expected(*LEFT)
    record = published.publish(published.land(8, [row(8, PERSON, 99), row(8, 1), row(8, 4, day=YESTERDAY)]))
    assert published.rows() == expected(row(8, 1), row(8, 4, day=YESTERDAY), row(7, 3, day=YESTERDAY))
    assert (record.new_rows, record.erased_rows) == (1, None)
    assert certificate(published, 2).tombstones.keys[0].absent_since is None
    assert 1 not in {r.manifest.generation for r in restorable_generations(published.services)}
    with pytest.raises(ConfigurationError, match="may contain keys that were erased since"):
        published.roll_back(1)


@pytest.mark.exhaustive
def test_a_key_may_come_back_after_a_snapshot_that_lacked_it(published: FeedOnStandIn) -> None:
    (delivery,) = [d.name for d in published.services.arrivals.deliveries()]
    published.erase(KEYS)
    published.publish(published.land(8, [row(8, 1), row(8, 3, day=YESTERDAY)]))
    assert certificate(published, 2).tombstones.keys[0].absent_since == 8
    published.publish(delivery, replay=True, plan="rewrite", run_id="again", reason="test")
    assert published.rows() == expected(row(8, 1), row(8, 3, day=YESTERDAY))
    published.publish(published.land(9, [row(9, PERSON), row(9, 3, day=YESTERDAY)]))
    assert published.rows() == expected(row(8, 1), row(9, PERSON), row(9, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_a_replay_that_reads_nothing_does_not_end_an_erasure(published: FeedOnStandIn) -> None:
    (delivery,) = [d.name for d in published.services.arrivals.deliveries()]
    published.erase(KEYS)
    published.publish(delivery, replay=True, run_id="again", reason="test")
    assert certificate(published, 2).tombstones.keys[0].absent_since is None


@pytest.mark.exhaustive
def test_rows_of_a_parent_without_files_are_erased_with_their_export(published: FeedOnStandIn) -> None:
    (delivery,) = [d.name for d in published.services.arrivals.deliveries()]
    published.publish(delivery, replay=True, engine=Engine.BIGQUERY, run_id="sql", reason="test")
    record = published.erase(KEYS)
    assert (published.rows(), record.erased_rows) == (expected(*LEFT), 2)
    folders = {name.split("/")[2] for name in names(published, "data/")}
    assert folders == {published.services.manifests.read(3).attempt}


def test_the_page_offers_no_rollback_behind_an_erasure(published: FeedOnStandIn) -> None:
    published.publish(published.land(8, [row(8, 1), row(8, PERSON)]))
    before = offered_rollbacks(published)
    assert (before[1], before[2]) != (None, None)
    published.erase(KEYS)
    assert offered_rollbacks(published) == {1: None, 2: None, 3: "time travel"}  # 3 is live


def offered_rollbacks(world: FeedOnStandIn) -> dict[int, str | None]:
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index
    return {g.generation: generation_view(index, g, world.now())["restorable"] for g in index.generations}


@pytest.mark.exhaustive
def test_no_rollback_reaches_behind_an_erasure(published: FeedOnStandIn) -> None:
    published.erase(KEYS)
    published.publish(published.land(8, [row(8, 1, 50), row(8, 3, day=YESTERDAY)]))
    assert [r.manifest.generation for r in restorable_generations(published.services)] == [3, 2]
    with pytest.raises(ConfigurationError, match="may contain keys that were erased since"):
        published.roll_back(1)
    published.roll_back(2)
    assert published.rows() == expected(*LEFT)


def test_what_cannot_be_erased_is_refused_before_anything_happens(published: FeedOnStandIn) -> None:
    with pytest.raises(ConfigurationError, match="no valid header"):
        published.resolve_erasure("attr_value\n1\n")
    with pytest.raises(ConfigurationError, match="There is no file of keys"):
        preview_erasure(published.services, ErasureRequest(ERASE_DAG, "erase", "absent.csv", ""), 1 << 30)
    published.feed = published.feed.model_copy(update={"engine": Engine.BIGQUERY})
    with pytest.raises(ConfigurationError, match="does not support erasures"):
        published.resolve_erasure(KEYS)
    assert published.services.current.read().last_generation == 1


def test_staging_gets_the_columns_that_the_feed_file_declares_since_the_last_publish(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    columns = [*world.feed.table.columns]
    columns[4] = columns[4].model_copy(update={"type": "NUMERIC"})
    world.feed = world.feed.model_copy(
        update={"table": world.feed.table.model_copy(update={"columns": tuple(columns)})}
    )
    world.resolve_erasure(KEYS)
    staging = world.services.warehouse.table(world.feed.staging)
    assert staging
    assert staging.columns == world.feed.table.to_contract().columns


def test_a_feed_without_a_generation_has_nothing_to_erase(world: FeedOnStandIn) -> None:
    with pytest.raises(ConfigurationError, match="nothing to erase"):
        world.resolve_erasure(KEYS)


def test_a_run_that_died_after_its_swap_is_committed_with_its_record(published: FeedOnStandIn) -> None:
    spec = published.resolve_erasure(KEYS)
    published.deduplicate(spec)
    published.load(spec)
    published.swap(spec, published.check(spec))
    recover(published.services, dag_id="other", run_id="other")
    assert published.services.current.read().generation == 2
    assert certificate(published, 2).rows == {FIRST[0]["date"]: 1, YESTERDAY: 1}


@pytest.mark.exhaustive
def test_a_run_that_died_before_its_swap_leaves_no_record(published: FeedOnStandIn) -> None:
    spec = published.resolve_erasure(KEYS)
    published.deduplicate(spec)
    recover(published.services, dag_id="other", run_id="other")
    assert names(published, "erasures/") == []
    assert published.services.ledger.read(spec.attempt).outcome is Outcome.FAILED  # type: ignore[union-attr]
    assert published.rows() == expected(*FIRST)


def test_the_preview_counts_rows_and_tells_bigquery_no_key(published: FeedOnStandIn) -> None:
    published.services.store.put(published.services.layout.keys_to_erase(KEYS_FILE), KEYS)
    request = ErasureRequest(ERASE_DAG, "erase", KEYS_FILE, "request 7")
    shown = preview_erasure(published.services, request, 1 << 30)
    assert shown.rows == {FIRST[0]["date"]: 1, YESTERDAY: 1}
    assert "**2 rows** of generation 1 have these keys" in shown.text
    jobs = [j for j in published.bigquery.list_jobs() if j.labels.get("dedup_clone_step") == "preview"]
    assert jobs
    assert str(PERSON) not in shown.text + "".join(str(job.to_api_repr()) for job in jobs)
    published.bigquery.query_and_wait(f"CREATE TABLE warehouse.{published.feed.feed}_changes (product_id INT64)")
    uncounted = preview_erasure(published.services, request, 0)
    assert uncounted.rows is None
    assert "rows with these keys were not counted" in uncounted.text
    assert f"are also deleted from [{published.feed.feed}_changes]" in uncounted.text


def test_the_text_of_a_key_is_the_same_in_bigquery(world: FeedOnStandIn) -> None:
    columns = (
        Column("day", "DATE"),
        Column("name", "STRING"),
        Column("born", "DATE"),
        Column("price", "NUMERIC"),
        Column("seen_at", "TIMESTAMP"),
        Column("raw", "BYTES"),
        Column("flag", "BOOL"),
        Column("code", "INT64"),
    )
    table = TableContract(columns, "day", "version", tuple(c.name for c in columns), (), 30)
    header = ",".join(c.name for c in columns[1:])
    for price in ("1.50", "-0.000000001", "700", "0", f"-{'9' * 29}.{'9' * 9}"):
        keys = parse_keys(f"{header}\nMüller,1969-12-31,{price},1969-12-31T23:59:59.5Z,00ff,false,-7\n", table)
        text = row_text(replace(table, columns=keys.columns))
        sql = (
            f"SELECT {text} AS text FROM (SELECT 'Müller' AS name, DATE '1969-12-31' AS born, -7 AS code, "
            f"NUMERIC '{price}' AS price, TIMESTAMP '1969-12-31 23:59:59.5+00' AS seen_at, FROM_HEX('00ff') AS raw, "
            f"FALSE AS flag)"
        )
        (found,) = world.bigquery.query_and_wait(sql)
        assert key_text(keys, keys.rows[0]) == found["text"]


CUSTOMER = "customer-8d1f6a07"  # as a value of a STRING column, which Parquet encodes and compresses
CUSTOMER_COLUMN = ColumnSettings(name="customer", type="STRING")


def with_customers(feed: Feed) -> Feed:
    """The feed with a STRING column as one more key, and a table of changes."""
    table = feed.table
    columns = {"columns": (*table.columns, CUSTOMER_COLUMN), "keys": (*table.keys, CUSTOMER_COLUMN.name)}
    return feed.model_copy(update={"table": table.model_copy(update=columns), "changes": True})


def publish_customers(world: FeedOnStandIn, snapshot_id: int, value: int) -> None:
    """Publish a snapshot with two customers, of whom CUSTOMER has product PERSON; all rows have the value."""
    customers = {PERSON: CUSTOMER, 1: "customer-8d1f6a08"}
    rows: list[Row] = [{**row(snapshot_id, number, value), "customer": name} for number, name in customers.items()]
    content = parquet_bytes(rows, schema(world.feed.table.to_contract()))
    world.publish(world.land_files(snapshot_id, {f"date={rows[0]['date']}/part-0.parquet": content}))


def fail_jobs(world: FeedOnStandIn, step: str, times: int = 1) -> None:
    """Let the next jobs of a step fail."""
    fault = {"match": {"job_id": f"{world.feed.feed}-.*-{step}-"}, "effect": "error", "reason": "backendError"}
    world.add_fault({**fault, "times": times})


def objects_with(value: Value, storage: Storage, folder: str = "") -> set[str]:
    """The objects of the state bucket that contain the value."""
    blobs = storage.list_blobs("state", prefix=folder)
    return {blob.name for blob in blobs if contains(blob.download_as_bytes(), value)}


def test_no_object_of_state_has_an_erased_text(
    clients: tuple[Storage, BigQuery], real_dedup: SparkDedupProcess
) -> None:
    world = FeedOnStandIn(with_customers(new_feed()), *clients)
    world.dedup = real_dedup
    publish_customers(world, 7, 20)
    publish_customers(world, 8, 30)
    fail_jobs(world, "changes")
    publish_customers(world, 9, 40)
    before = objects_with(CUSTOMER, clients[0], f"{world.feed.feed}/")
    assert {name.split("/")[1] for name in before} == {"attempts", "changes", "data"}
    world.erase(f"customer\n{CUSTOMER}\n")
    assert objects_with(CUSTOMER, clients[0], f"{world.feed.feed}/") == set()
    for table in (world.feed.target, world.feed.staging, f"{world.feed.target}_changes"):
        (count,) = world.bigquery.query_and_wait(
            f"SELECT COUNTIF(customer = '{CUSTOMER}'), COUNT(*) FROM warehouse.{table}"
        )
        assert (count[0], count[1] > 0) == (0, True), table


@pytest.mark.exhaustive
def test_the_values_are_in_no_byte_of_state_and_tables_once_time_travel_has_passed(tmp_path: Path) -> None:
    with open_clients(tmp_path) as clients, SparkDedupProcess(clients[0]) as dedup:
        world = FeedOnStandIn(with_customers(new_feed("erased_")), *clients)
        world.dedup = dedup
        publish_customers(world, 7, 20)
        publish_customers(world, 8, 30)
        strict = CheckSettings(max_changed_share=0.1, max_new_share=1, max_survivor_share=1, max_times_usual=None)
        world.feed = world.feed.model_copy(update={"checks": strict})
        with pytest.raises(CheckFailed) as failed:  # its evidence has the key as an example
            publish_customers(world, 9, 40)
        assert str(PERSON) not in str(failed.value)
        assert CUSTOMER not in str(failed.value)
        recover(world.services, dag_id="other", run_id="other")
        loose = CheckSettings(max_changed_share=1, max_new_share=1, max_survivor_share=1, max_times_usual=None)
        world.feed = world.feed.model_copy(update={"checks": loose})
        fail_jobs(world, "changes")
        publish_customers(world, 10, 50)
        world.write_reporting_tables()
        tables = tmp_path / "bigquery"

        def places(value: Value) -> set[str]:
            files = {path.relative_to(tables).as_posix(): path for path in tables.rglob("*") if path.is_file()}
            return objects_with(value, clients[0]) | {n for n, p in files.items() if contains(p.read_bytes(), value)}

        for value in (PERSON, CUSTOMER):
            before = places(value)
            for part in ("checks_before.json", "index.json", "/data/", "/changes/", "segments/"):
                assert any(part in place for place in before), (value, part, before)
        world.erase(f"customer\n{CUSTOMER}\n")
        publish_customers(world, 11, 60)
        world.write_reporting_tables()
        world.pass_time(timedelta(days=15))
        assert places(PERSON) | places(CUSTOMER) == set()
