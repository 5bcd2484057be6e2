"""Columns and clustering of a published table change by the DAG dedup_clone_rebuild.

One column is dropped, another gets a new name and type, and the table is clustered by fewer columns.
"""

from __future__ import annotations

import pyarrow as pa
import yaml

from testkit.stack import Stack
from testkit.stack_snapshots import SCHEMA, Row, row
from tests.e2e.feeds import REBUILT as FEED
from tests.e2e.feeds import TODAY, YESTERDAY

FORMER = ("store_id", "attr_value")
NEW_SCHEMA = pa.schema([
    *[field for field in SCHEMA if field.name not in FORMER],
    pa.field("value", pa.string()),
])  # fmt: skip


def in_new_form(former: Row) -> Row:
    kept = {name: value for name, value in former.items() if name not in FORMER}
    return {**kept, "value": str(former["attr_value"])}


def change_file(stack: Stack) -> None:
    path = stack.layout.dags_folder / "feeds" / f"{FEED}.yaml"
    settings = yaml.safe_load(path.read_text())
    columns = [column for column in settings["table"]["columns"] if column["name"] not in FORMER]
    settings["table"]["columns"] = [*columns, {"name": "value", "type": "STRING"}]
    settings["table"]["cluster_by"] = ["product_id"]
    path.write_text(yaml.safe_dump(settings, sort_keys=False))


def assert_target(stack: Stack, *former: Row) -> None:
    """Target has these rows in the new form, ordered by date and product."""
    found = stack.query(f"SELECT * FROM warehouse.{FEED} ORDER BY date, product_id")
    assert found == [in_new_form(one) for one in former]


def a_table_is_rebuilt(stack: Stack) -> None:
    first = [row(day, product, product, 1) for day in (YESTERDAY, TODAY) for product in range(6)]
    stack.assert_published(FEED, stack.land(FEED, 1, first))
    change_file(stack)
    added = row(TODAY, 8, 80, 2)
    refused = stack.land(FEED, 2, [in_new_form(added)], NEW_SCHEMA)
    assert stack.wait_for_run(FEED, refused) == "failed"
    assert stack.task_states(FEED, refused)["dedup_snapshot"] == "upstream_failed"
    log = stack.task_log(FEED, refused, "resolve_publish")
    assert "attr_value" in log
    assert "dedup_clone_rebuild" in log, "what to do"

    form = {"renamed": {"attr_value": "value"}, "reason": "stores have a table of their own"}
    assert "[attr_value] becomes [value]" in stack.approve(FEED, "rebuild", **form)
    assert_target(stack, *first)
    assert stack.bigquery.get_table(f"warehouse.{FEED}").clustering_fields == ["product_id"]

    # The publish takes the delivery that was refused, too.
    last = row(TODAY, 9, 90, 3)
    stack.assert_published(FEED, stack.land(FEED, 3, [in_new_form(last)], NEW_SCHEMA))
    assert_target(stack, *first, added, last)
