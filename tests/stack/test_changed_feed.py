"""A feed file that changes between publishes, on the real stack: what is announced, carried out, refused and kept.

The tests are steps in the life of one feed, in this order.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from testkit.approvals import Approvals
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient
from tests.stack.changed_feed import FEED, OLD_DAY, ChangedFeed

pytestmark = [pytest.mark.stack, pytest.mark.exhaustive, pytest.mark.timeout(900)]

CHANGES, PROBLEMS = 2, 1  # exit statuses of `make plan`
DAY_MS = 24 * 60 * 60 * 1000
PORTO = {"origin": {"country": "PT", "city": "Porto"}, "colour": "red"}


@pytest.fixture(scope="module")
def changed(proxied_stack: ProxiedStack, stack: StackClient, tmp_path_factory: pytest.TempPathFactory) -> ChangedFeed:
    """Its first snapshot is published."""
    feed = ChangedFeed(proxied_stack, stack, tmp_path_factory.mktemp("changed"))
    feed.publish(1, feed.rows(1))
    return feed


def ask_for_rollback(changed: ChangedFeed, generation: int) -> str:
    answer = changed.stack.trigger(f"{FEED}_rollback", generation=generation, reason="across a change")
    return changed.stack.started_run_id(answer)


def test_an_added_column_is_planned_and_published_by_a_snapshot_that_lacks_it(changed: ChangedFeed) -> None:
    colour = {"name": "colour", "type": "STRING", "since": 3}
    changed.change_file(lambda settings: settings["table"]["columns"].append(colour))
    status, shown = changed.plan()
    assert status == CHANGES
    assert "colour" in shown
    changed.publish(2, changed.rows(2), without=("colour",))
    assert changed.target().schema[-1].name == "colour"
    assert changed.plan()[0] == 0


def test_a_rollback_behind_an_added_column_keeps_the_column_without_values(changed: ChangedFeed) -> None:
    run_id = ask_for_rollback(changed, 1)
    approvals = Approvals(changed.stack, FEED, "rollback", "approve_rollback")
    approvals.wait_for_question(run_id)
    assert approvals.answer(run_id, "Approve") == 200
    assert approvals.wait_for_end(run_id, "Approve") == "success"
    changed.expected = {(r["date"], r["product_id"]): r for r in changed.rows(1)}
    changed.assert_target_as_expected()
    assert changed.target().schema[-1].name == "colour"


def test_snapshots_with_and_without_the_column_live_together(changed: ChangedFeed) -> None:
    changed.publish(3, changed.rows(3, colour="red"))
    assert {found["colour"] for found in changed.expected.values() if "colour" in found} == {"red"}


def test_a_snapshot_that_must_have_the_column_and_lacks_it_is_refused(changed: ChangedFeed) -> None:
    run_id = changed.land(4, changed.rows(4), without=("colour",))
    changed.assert_stopped(run_id, "resolve_publish", "colour")


def test_a_nested_column_and_a_wider_type_come_with_one_publish(changed: ChangedFeed) -> None:
    def widen(settings: dict[str, Any]) -> None:
        by_name = {column["name"]: column for column in settings["table"]["columns"]}
        by_name["attr_value"]["type"] = "NUMERIC"
        by_name["origin"]["fields"].append({"name": "city", "type": "STRING", "since": 5})

    changed.change_file(widen)
    status, shown = changed.plan()
    assert status == CHANGES
    assert [text for text in ("attr_value", "city") if text not in shown] == []
    for found in changed.expected.values():
        found["origin"] = {**found["origin"], "city": None}
    changed.publish(5, changed.rows(5, attr_value=Decimal("0.25"), **PORTO))


def test_a_rollback_behind_another_type_is_refused_with_the_way_on(changed: ChangedFeed) -> None:
    run_id = ask_for_rollback(changed, changed.generation - 1)
    assert changed.stack.wait_for_run(FEED, run_id, dag="rollback") == "failed"
    log = changed.stack.task_log(FEED, run_id, "show_difference", dag="rollback")
    assert "eplay" in log, log
    changed.assert_target_as_expected()


def test_a_query_of_the_feed_stops_a_publish_until_the_delivery_is_corrected(changed: ChangedFeed) -> None:
    query = "SELECT date, product_id FROM {{ staging }} AS staged WHERE staged.attr_value < 0\n"
    changed.add_sql_check("no_negative_values", query)
    run_id = changed.land(6, changed.rows(6, attr_value=Decimal(-1), **PORTO))
    changed.assert_stopped(run_id, "check_staging", "no_negative_values")
    changed.publish(6, changed.rows(6, attr_value=Decimal(6), **PORTO))


def test_a_label_that_somebody_set_on_target_stops_a_publish_until_it_is_declared(changed: ChangedFeed) -> None:
    target = changed.target()
    target.labels = {**target.labels, "cost_centre": "42"}
    changed.stack.bigquery.update_table(target, ["labels"])
    rows = changed.rows(7, attr_value=Decimal(7), **PORTO)
    changed.assert_stopped(changed.land(7, rows), "resolve_publish", "cost_centre")
    changed.change_file(lambda settings: settings["table"].update({"options": {"labels": {"cost_centre": "42"}}}))
    changed.wait_until_published(changed.stack.replay(FEED, snapshot_id="7", reason="the label is declared"), rows)
    assert changed.target().labels["cost_centre"] == "42"


def test_a_shorter_retention_waits_for_its_approval_by_the_plan(changed: ChangedFeed) -> None:
    changed.change_file(lambda settings: settings["table"].update({"retention_days": 300}))
    rows = changed.rows(8, attr_value=Decimal(8), **PORTO)
    changed.assert_stopped(changed.land(8, rows), "resolve_publish", "retention")
    status, shown = changed.plan()
    assert status == PROBLEMS
    assert str(OLD_DAY) in shown
    assert changed.plan("--apply")[0] != PROBLEMS
    changed.expected = {key: found for key, found in changed.expected.items() if key[0] != OLD_DAY}
    changed.wait_until_published(changed.stack.replay(FEED, snapshot_id="8", reason="it is approved"), rows)
    assert changed.target().time_partitioning.expiration_ms == timedelta(days=300).days * DAY_MS
