"""Columns and clustering of a published table change by the DAG dedup_clone_rebuild. The feed has a table of changes.

One column is dropped, another gets a new name and type, and the table is clustered by fewer columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import yaml

from testkit.oracle import OracleDelivery, OracleState, OracleTable
from testkit.stack import Stack
from testkit.stack_snapshots import SCHEMA, Row, row
from testkit.stored_changes import expected_changes, stored_changes
from tests.e2e.feeds import REBUILT as FEED
from tests.e2e.feeds import RETENTION_DAY, TODAY, YESTERDAY

PRODUCTS = 6
KEYS = ("date", "product_id", "attribute_id")
BEFORE = OracleTable("date", "update_id", KEYS, ("store_id", "attr_value"))
AFTER = OracleTable("date", "update_id", KEYS, ("value",))
NEW_SCHEMA = pa.schema([
    *[field for field in SCHEMA if field.name not in ("store_id", "attr_value")],
    pa.field("value", pa.string()),
])  # fmt: skip


def snapshot(snapshot_id: int) -> list[Row]:
    """Consecutive snapshots lack different products and differ in product 1's value."""
    return [
        row(day, product, snapshot_id if product == 1 else product, snapshot_id)
        for day in (YESTERDAY, TODAY)
        for product in range(PRODUCTS)
        if product != 2 + snapshot_id % (PRODUCTS - 2)
    ]


def in_new_form(former: Row) -> Row:
    kept = {name: value for name, value in former.items() if name not in ("store_id", "attr_value")}
    return {**kept, "value": str(former["attr_value"])}


def change_file(stack: Stack) -> None:
    path = stack.layout.dags_folder / "feeds" / f"{FEED}.yaml"
    settings = yaml.safe_load(path.read_text())
    columns = [column for column in settings["table"]["columns"] if column["name"] not in ("store_id", "attr_value")]
    settings["table"]["columns"] = [*columns, {"name": "value", "type": "STRING"}]
    settings["table"]["cluster_by"] = ["product_id"]
    path.write_text(yaml.safe_dump(settings, sort_keys=False))


def publish(stack: Stack, before: OracleState, snapshot_id: int, rows: list[Row], schema: pa.Schema) -> OracleState:
    """Publish a snapshot, and compare target and the table of changes with the oracle's."""
    stack.assert_published(FEED, stack.land(FEED, snapshot_id, rows, schema))
    after = before.apply([OracleDelivery(snapshot_id, rows)], RETENTION_DAY)
    assert_target(stack, after)
    if before.rows:  # the first generation adds no rows to the table of changes
        generation = stack.current(FEED)["generation"]
        expected = expected_changes(
            before, after, generation=generation, snapshot_id=snapshot_id, retention_day=RETENTION_DAY
        )
        assert expected
        assert stored_changes(stack.bigquery, f"warehouse.{FEED}_changes", after.table) == expected
    return after


def assert_target(stack: Stack, expected: OracleState) -> None:
    found = {expected.table.key(r): r for r in stack.query(f"SELECT * FROM warehouse.{FEED}")}
    assert found == expected.rows
    target: Any = stack.bigquery.get_table(f"warehouse.{FEED}")
    assert target.num_rows == len(found), "no key twice"


def a_table_is_rebuilt(stack: Stack) -> None:
    state = publish(stack, OracleState(BEFORE), 1, snapshot(1), SCHEMA)
    state = publish(stack, state, 2, snapshot(2), SCHEMA)
    change_file(stack)
    refused = stack.land(FEED, 3, [in_new_form(former) for former in snapshot(3)], NEW_SCHEMA)
    assert stack.wait_for_run(FEED, refused) == "failed"
    assert stack.task_states(FEED, refused)["dedup_snapshot"] == "upstream_failed"
    log = stack.task_log(FEED, refused, "resolve_publish")
    assert "attr_value" in log
    assert "dedup_clone_rebuild" in log, "what to do"

    form = {"renamed": {"attr_value": "value"}, "reason": "stores have a table of their own"}
    assert "[attr_value] becomes [value]" in stack.approve(FEED, "rebuild", **form)
    state = replace(state, table=AFTER, rows={key: in_new_form(former) for key, former in state.rows.items()})
    assert_target(stack, state)
    assert stack.bigquery.get_table(f"warehouse.{FEED}").clustering_fields == ["product_id"]

    # The publish takes the delivery that was refused, too, and the table of changes has been emptied.
    third, fourth = ([in_new_form(former) for former in snapshot(number)] for number in (3, 4))
    before = state
    stack.assert_published(FEED, stack.land(FEED, 4, fourth, NEW_SCHEMA))
    state = state.apply([OracleDelivery(3, third), OracleDelivery(4, fourth)], RETENTION_DAY)
    assert_target(stack, state)
    generation = stack.current(FEED)["generation"]
    expected = expected_changes(before, state, generation=generation, snapshot_id=4, retention_day=RETENTION_DAY)
    assert stored_changes(stack.bigquery, f"warehouse.{FEED}_changes", AFTER) == expected
