"""Erasure: the rows of named keys leave target, staging and state, and no snapshot brings them back."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation, JobFailed
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.settings.check_settings import SqlCheck
from testkit import operations, runs, step_faults
from testkit.dedup_job import Row
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.killed_writes import asleep_before_write, kill_before_write
from testkit.value_search import Value, contains
from tests.contract.new_feeds import new_feed
from tests.contract.publish.changes_rows import ledger_figures
from tests.contract.publish.existing_tables import column, create_table, land_declared, select, with_columns, with_table

PERSON = 1_234_567_890_123_456_789  # a key that no other number resembles
KEYS = f"product_id,store_id\n{PERSON},2072\n"
FIRST = [row(7, 1), row(7, PERSON), row(7, PERSON, day=YESTERDAY), row(7, 3, day=YESTERDAY)]
LEFT = [row(7, 1), row(7, 3, day=YESTERDAY)]
KEYS_FILE = "to_erase/keys.csv"


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, FIRST))
    return world


def certificate(world: FeedOnStandIn, generation: int) -> dict[str, Any]:
    return world.state.read(f"erasures/{generation:08}.json")


def publish_changes(world: FeedOnStandIn) -> None:
    """Publish a second snapshot whose changed rows are kept in the table of changes."""
    world.feed = world.feed.model_copy(update={"changes": True})
    world.publish(world.land(8, [row(8, 1), row(8, PERSON, 30), row(8, 3, 30, day=YESTERDAY)]))


def delivery(world: FeedOnStandIn) -> str:
    return world.state.deliveries("arrivals")[0]


def offered_rollbacks(world: FeedOnStandIn) -> str:
    """The generations that the refusal of an impossible rollback names."""
    with pytest.raises(ConfigurationError) as refused:
        world.preview(99)
    return str(refused.value).rpartition("Choose one of: ")[2]


def test_an_erasure_is_a_generation_without_the_rows_and_leaves_nothing_of_earlier_ones(
    published: FeedOnStandIn,
) -> None:
    publish_changes(published)
    assert offered_rollbacks(published).startswith("2 (snapshot 8), 1 ")
    published.state.write(f"{KEYS_FILE}.next", KEYS)
    run = runs.erasure(published, KEYS)
    record = run.finish()
    assert (
        published.rows() == published.rows(published.feed.staging) == expected(row(8, 1), row(8, 3, 30, day=YESTERDAY))
    )
    assert (record.generation, record.parent, record.snapshot_id) == (3, 2, 8)
    assert (record.kind, record.replay, record.lag_s, record.reason) == ("erase", False, None, "request 7")
    assert (record.deliveries, record.shares["new_share"]) == ((), 0.0)
    found = certificate(published, 3)
    assert found["rows"] == {str(TODAY): 1, str(YESTERDAY): 1}
    assert [name.rpartition(".")[2].removeprefix(published.feed.feed) for name in found["tables"]][-1] == "_changes"
    moments = [datetime.fromisoformat(found[f"{key}"]) for key in ("deleted_at", "time_travel_ends", "fail_safe_ends")]
    assert [later - moments[0] for later in moments] == [timedelta(), timedelta(days=7), timedelta(days=14)]
    assert (found["change_rows"], found["folders_to_delete"]) == (2, [])
    assert {uri.split("/")[4] for uri in found["deleted_folders"]} == {"data", "attempts"}
    assert published.state.subfolders("data") == published.state.subfolders("attempts") == [run.attempt]
    assert published.state.names("to_erase/") == [f"{KEYS_FILE}.next"]
    assert select(published, "product_id", f"{published.feed.feed}_changes") == [(3,)]
    assert ledger_figures(published) == [(1, None), (2, None), (3, None)], "a follower waits for no rows"
    assert offered_rollbacks(published).startswith("3 (snapshot 8)")
    with pytest.raises(ConfigurationError, match="erased"):
        published.roll_back(1)
    with pytest.raises(ConfigurationError, match="is not supported after an erasure"):
        published.resolve(published.land(9, FIRST), replay=True, engine=Engine.MERGE, reason="test")


def test_a_certificate_claims_no_deletion_before_it_is_done_and_belongs_to_its_run(published: FeedOnStandIn) -> None:
    publish_changes(published)
    published.fail_jobs(f"{published.feed.feed}-.*-erase_changes-")
    first = runs.erasure(published, KEYS)
    with pytest.raises(JobFailed):
        first.finish()
    claimed = certificate(published, 3)
    assert (claimed["deleted_at"], claimed["change_rows"], claimed["time_travel_ends"]) == (None, None, None)
    runs.erasure(published, "product_id\n3\n", run_id="second").finish()
    assert certificate(published, 4)["change_rows"] == 1
    assert certificate(published, 3) == claimed
    with pytest.raises(ConfigurationError):  # the file of keys is gone
        first.step("clean")
    published.state.write(KEYS_FILE, KEYS)
    first.step("clean")
    found = certificate(published, 3)
    assert (found["deleted_at"] is None, found["change_rows"]) == (False, 2)
    assert set(found["deleted_folders"]) >= set(claimed["folders_to_delete"])
    assert published.state.names("to_erase/") == []
    first.step("clean")
    assert certificate(published, 3) == found
    with pytest.raises(ContractViolation, match="has erased nothing"):
        runs.erasure(published, None, run_id="another").step("clean")


def test_a_certificate_names_the_tables_that_earlier_attempts_left_although_the_try_that_dropped_them_died(
    published: FeedOnStandIn,
) -> None:
    """The table of a later attempt stays, and so does one of a feed with a similar name."""
    run = runs.erasure(published, KEYS).until("commit")
    left_over, later, other = (
        create_table(published, f"{published.feed.target}_incoming_{end}")
        for end in ("00000001-ab12cd", "00000003-ab12cd", "00000001")
    )
    number = 1
    while kill_before_write(number, partial(run.step, "clean")):
        number += 1
    assert number > 3
    names = [name.rpartition(".")[2] for name in certificate(published, 2)["tables"]]
    assert names == [published.feed.target, published.feed.staging, left_over]
    assert published.incoming() == [name.rpartition("_")[2] for name in (other, later)]


def test_a_certificate_stays_as_the_faster_of_two_tries_has_completed_it(published: FeedOnStandIn) -> None:
    """The other finds nothing left to delete."""
    publish_changes(published)
    run = runs.erasure(published, KEYS).until("commit")
    with asleep_before_write(1, partial(run.step, "clean")) as woken:
        run.step("clean")
    assert len(woken) == 1
    found = certificate(published, 3)
    assert {uri.split("/")[4] for uri in found["deleted_folders"]} == {"data", "attempts"}
    assert found["change_rows"] == 2


def test_an_erasure_whose_last_step_is_late_leaves_changes_of_keys_that_came_back(published: FeedOnStandIn) -> None:
    publish_changes(published)
    run = runs.erasure(published, KEYS).until("commit")
    published.publish(published.land(9, [row(9, 1), row(9, 3, 30, day=YESTERDAY)]))
    published.publish(published.land(10, [row(10, 1), row(10, PERSON), row(10, 3, 30, day=YESTERDAY)]))
    run.finish()
    assert select(published, "product_id, generation", f"{published.feed.feed}_changes") == [(PERSON, 5), (3, 2)]


def test_the_keys_are_those_that_were_approved_although_others_are_uploaded_meanwhile(
    published: FeedOnStandIn,
) -> None:
    publish_changes(published)
    run = runs.erasure(published, KEYS).until("resolve")
    published.state.write(KEYS_FILE, "product_id\n3\n")
    assert run.finish().change_rows is None
    assert {product for _, product, _, _ in published.rows()} == {1, 3}
    assert select(published, "product_id", f"{published.feed.feed}_changes") == [(3,)]
    assert published.state.names("to_erase/") == [KEYS_FILE]
    run.step("clean")
    assert published.state.names("to_erase/") == [KEYS_FILE]
    assert [name for name in published.state.names("attempts/") if "keys" in name] == []


def test_the_rows_leave_the_table_of_changes_and_what_it_lacks_is_not_loaded(published: FeedOnStandIn) -> None:
    publish_changes(published)
    table = f"{published.feed.feed}_changes"
    published.fail_jobs(f"{published.feed.feed}-.*-changes-", times=2)
    published.publish(published.land(9, [row(9, 1), row(9, PERSON, 31), row(9, 3, 31, day=YESTERDAY)]))
    assert select(published, "product_id", table) == [(PERSON,), (PERSON,), (3,)]
    assert runs.erasure(published, KEYS).finish().change_rows is None
    assert select(published, "product_id, generation", table) == [(3, 2)]
    assert published.state.names("changes/") == []
    published.publish(published.land(10, [row(10, 1), row(10, PERSON, 32), row(10, 3, 31, day=YESTERDAY)]))
    assert (PERSON,) not in select(published, "product_id", table)


def test_an_erased_key_comes_back_only_after_a_snapshot_that_lacked_it(published: FeedOnStandIn) -> None:
    def absent_since() -> int | None:
        return certificate(published, 2)["tombstones"]["keys"][0].get("absent_since")  # type: ignore[no-any-return]

    runs.erasure(published, KEYS).finish()
    for plan, run_id in ((None, "reads nothing"), ("rewrite", "reads all")):
        published.publish(delivery(published), replay=True, plan=plan, run_id=run_id, reason="test")
        assert (published.rows(), absent_since()) == (expected(*LEFT), None)
    record = published.publish(published.land(8, [row(8, PERSON, 99), row(8, 1), row(8, 4, day=YESTERDAY)]))
    assert published.rows() == expected(row(8, 1), row(8, 4, day=YESTERDAY), row(7, 3, day=YESTERDAY))
    assert (record.new_rows, absent_since()) == (1, None)
    published.publish(published.land(9, [row(9, 1), row(9, 3, day=YESTERDAY)]))
    assert absent_since() == 9
    published.publish(delivery(published), replay=True, plan="rewrite", run_id="again", reason="test")
    assert PERSON not in {product for _, product, *_ in published.rows()}
    published.publish(published.land(10, [row(10, PERSON)]))
    assert PERSON in {product for _, product, *_ in published.rows()}


def test_rows_of_a_parent_without_files_are_erased_with_their_export(published: FeedOnStandIn) -> None:
    published.publish(delivery(published), replay=True, engine=Engine.BIGQUERY, run_id="sql", reason="test")
    run = runs.erasure(published, KEYS)
    run.finish()
    assert published.rows() == expected(*LEFT)
    assert published.state.subfolders("data") == [run.attempt]


def test_what_the_swap_would_remove_stops_an_erasure_before_its_approval_and_its_spark_job(
    published: FeedOnStandIn,
) -> None:
    published.label(team="stores")
    run = runs.erasure(published, KEYS)
    for step in ("preview", "resolve"):
        with pytest.raises(CheckFailed, match=r"label \[team\]"):
            run.step(step)
    assert published.state.lease is None
    checks = published.feed.checks.model_copy(update={"sql": (SqlCheck(name="no_file_was_read"),)})
    published.feed = published.feed.model_copy(update={"checks": checks})
    published.label(team=None)
    run.step("preview")  # no query of the feed can stop it


def test_what_cannot_be_erased_is_refused_before_anything_happens(world: FeedOnStandIn) -> None:
    with pytest.raises(ConfigurationError, match="nothing to erase"):
        runs.erasure(world, KEYS).step("resolve")
    world.publish(world.land(7, FIRST))
    with pytest.raises(ConfigurationError, match="no valid header"):
        runs.erasure(world, "attr_value\n1\n").step("resolve")
    world.state.lose("to_erase/")
    with pytest.raises(ConfigurationError, match="no file of keys"):
        runs.erasure(world, None).step("preview")
    former = world.feed
    world.feed = former.model_copy(update={"engine": Engine.BIGQUERY})
    with pytest.raises(ConfigurationError, match="does not support erasures"):
        runs.erasure(world, KEYS).step("resolve")
    assert world.state.current["last_generation"] == 1
    world.feed = with_columns(former, attr_value=column("attr_value", "NUMERIC"))
    runs.erasure(world, KEYS).step("resolve")
    staging = world.bigquery.get_table(f"warehouse.{world.feed.staging}")
    assert [field.field_type for field in staging.schema if field.name == "attr_value"] == ["NUMERIC"]


def test_the_preview_counts_rows_and_tells_bigquery_no_key(published: FeedOnStandIn) -> None:
    text = runs.erasure(published, KEYS).until("preview").text
    assert "Rows of generation 1 with these keys: **2**, on: " in text
    jobs = [j for j in published.jobs() if j.labels.get("dedup-clone-step") == "preview"]
    assert jobs
    assert str(PERSON) not in text + "".join(str(job.to_api_repr()) for job in jobs)
    with step_faults.queries_that_read((100 << 30) + 1):
        assert "not counted, because the query would" in runs.erasure(published, KEYS).until("preview").text


def test_the_text_of_a_key_is_the_same_in_bigquery(world: FeedOnStandIn) -> None:
    kinds = {"day": "DATE", "name": "STRING", "born": "DATE", "price": "NUMERIC", "seen_at": "TIMESTAMP"}
    kinds |= {"raw": "BYTES", "flag": "BOOL", "code": "INT64", "left_at": "DATETIME"}
    columns = tuple(Column(name, kind) for name, kind in kinds.items())
    table = TableContract(columns, "day", "version", tuple(kinds), (), 30)
    for price in ("1.50", "-0.000000001", "700", "0", f"-{'9' * 29}.{'9' * 9}"):
        values = f"Müller,1969-12-31,{price},1969-12-31T23:59:59.5Z,00ff,false,-7,1969-12-31T23:59:59.5"
        text, expression = operations.key_and_its_sql(f"{','.join(list(kinds)[1:])}\n{values}\n", table)
        sql = (
            f"SELECT {expression} AS text FROM (SELECT 'Müller' AS name, "
            f"DATE '1969-12-31' AS born, -7 AS code, NUMERIC '{price}' AS price, FALSE AS flag, "
            f"TIMESTAMP '1969-12-31 23:59:59.5+00' AS seen_at, FROM_HEX('00ff') AS raw, "
            f"DATETIME '1969-12-31 23:59:59.5' AS left_at)"
        )
        (found,) = world.bigquery.query_and_wait(sql)
        assert text == found["text"]


CUSTOMER = "customer-8d1f6a07"  # as a value of a STRING column, which Parquet encodes and compresses


def land_customers(world: FeedOnStandIn, snapshot_id: int, value: int) -> str:
    """Land a snapshot with two customers, of whom CUSTOMER has product PERSON; all rows have the value."""
    customers = {PERSON: CUSTOMER, 1: "customer-8d1f6a08"}
    rows: list[Row] = [{**row(snapshot_id, number, value), "customer": name} for number, name in customers.items()]
    return land_declared(world, snapshot_id, rows)


def test_no_object_of_state_has_an_erased_value(clients: tuple[Storage, BigQuery]) -> None:
    """Neither files nor records, such as the evidence of a failed check, which has keys as examples."""
    feed = with_columns(new_feed(), customer=column("customer", "STRING"))
    feed = with_table(feed, keys=(*feed.table.keys, "customer")).model_copy(update={"changes": True})
    world = FeedOnStandIn(feed, *clients)
    world.publish(land_customers(world, 7, 20))
    world.publish(land_customers(world, 8, 30))
    former = world.feed
    world.configure(checks={"max_changed_share": 0.1})
    with pytest.raises(CheckFailed) as failed:
        world.publish(land_customers(world, 9, 40))
    assert str(PERSON) not in str(failed.value)
    assert CUSTOMER not in str(failed.value)
    operations.recover_lease(world)
    world.feed = former
    world.fail_jobs(f"{world.feed.feed}-.*-changes-")
    world.publish(land_customers(world, 10, 50))

    def objects_with(value: Value) -> set[str]:
        blobs = clients[0].list_blobs("state", prefix=f"{world.feed.feed}/")
        return {blob.name.split("/", 1)[1] for blob in blobs if contains(blob.download_as_bytes(), value)}

    for value in (PERSON, CUSTOMER):
        before = objects_with(value)
        for part in ("checks_before.json", "data/", "changes/"):
            assert any(part in name for name in before), (value, part, before)
    runs.erasure(world, f"customer\n{CUSTOMER}\n").finish()
    assert objects_with(PERSON) | objects_with(CUSTOMER) == set()
    for table in (world.feed.target, world.feed.staging, f"{world.feed.target}_changes"):
        customers = select(world, "customer", table)
        assert customers
        assert (CUSTOMER,) not in customers
