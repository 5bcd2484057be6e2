"""The ledger in BigQuery: what analysts can ask, without a statement of ours that reads a table."""

from __future__ import annotations

import secrets

import pytest
from google.cloud.bigquery import SchemaField

from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.records.ledger_table import LEDGER_COLUMNS, LEDGER_DESCRIPTION
from dedup_clone.publish.records.status_table import STATUS_DESCRIPTION
from testkit.feed_on_stand_in import FeedOnStandIn, row


def ask(world: FeedOnStandIn, columns: str) -> list[tuple[object, ...]]:
    world.write_reporting_tables()
    sql = f"SELECT {columns} FROM warehouse.dedup_clone_ledger WHERE feed = '{world.feed.feed}' ORDER BY generation"
    return [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)]


@pytest.mark.exhaustive
def test_every_attempt_is_one_row_however_it_ended(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.dedup.refused_ids = {8}
    spec = world.resolve(world.land(8, [row(8, 1)]))
    with pytest.raises(DeliveryRefused):
        world.deduplicate(spec)
    world.publish(world.land(9, [row(9, 2)]))
    world.roll_back(1)
    assert ask(world, "generation, outcome, snapshot_id, restores") == [
        (1, "published", 7, None),
        (2, "refused", 8, None),
        (3, "published", 9, None),
        (4, "published", 7, 1),
    ]


@pytest.mark.exhaustive
def test_a_commit_that_is_tried_again_appends_no_second_row(world: FeedOnStandIn) -> None:
    record = world.publish(world.land(7, [row(7, 1)]))
    commit_attempt(world.services, record.attempt)
    assert len(ask(world, "attempt")) == 1


def test_phases_add_up_to_the_lag(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    spec = world.resolve(name)
    world.services.store.create(world.services.layout.dedup_started(spec.attempt), "")
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    assert record.lag_s
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    expected = {"until_lease", "task_start", "dedup", "load_start", "load", "checks", "swap", "queued"}
    assert set(record.phases) >= expected
    replay = world.publish(name, replay=True)
    assert "until_lease" not in replay.phases


def test_check_results_phases_and_costs_can_be_queried_of_tables_that_are_described(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    ((failed, load_seconds, query_usd),) = ask(
        world,
        "(SELECT COUNT(*) FROM UNNEST(verdicts) AS v WHERE v.level = 'fail'), "
        "(SELECT p.seconds FROM UNNEST(phases) AS p WHERE p.name = 'load'), query_usd",
    )
    assert failed == 0
    assert isinstance(load_seconds, float)
    assert isinstance(query_usd, float)
    assert query_usd < 0.001
    status = world.bigquery.get_table("warehouse.dedup_clone_status")
    assert status.description == STATUS_DESCRIPTION
    assert all(field.description for field in status.schema)

    name = "dedup_clone_ledger"
    table = world.bigquery.get_table(f"warehouse.{name}")
    assert table.description == LEDGER_DESCRIPTION
    # The tables of an earlier release get descriptions too.
    table.description, table.schema = "of an earlier release", [_undescribed(field) for field in table.schema]
    world.bigquery.update_table(table, ["description", "schema"])
    assert world.services.warehouse.describe_table(name, LEDGER_DESCRIPTION, LEDGER_COLUMNS)
    described = world.bigquery.get_table(f"warehouse.{name}")
    assert described.description == LEDGER_DESCRIPTION
    nested = {f"{f.name}.{inner.name}": inner.description for f in described.schema for inner in f.fields}
    assert {field.name: field.description for field in described.schema} | nested == LEDGER_COLUMNS
    assert not world.services.warehouse.describe_table(name, LEDGER_DESCRIPTION, LEDGER_COLUMNS)


def test_a_load_that_replaces_all_rows_leaves_the_description_so_that_one_change_of_the_table_suffices(
    world: FeedOnStandIn,
) -> None:
    warehouse, schema = world.services.warehouse, [{"name": "feed", "type": "STRING"}]
    for number, columns in enumerate([schema, [*schema, {"name": "added", "type": "INTEGER"}]]):
        job = f"replace_{secrets.token_hex(4)}"
        warehouse.start_load(job, "replaced", columns, [{"feed": f"row {number}"}], append=False)
        assert warehouse.wait_for_jobs([job], poll_s=0.05, timeout_s=30)[0].error is None
        assert warehouse.describe_table("replaced", "Rows.", {"feed": "name"}) == (number == 0)
    assert [row.feed for row in world.bigquery.query("SELECT feed FROM warehouse.replaced")] == ["row 1"]


def _undescribed(field: SchemaField) -> SchemaField:
    return SchemaField.from_api_repr({**field.to_api_repr(), "description": ""})
