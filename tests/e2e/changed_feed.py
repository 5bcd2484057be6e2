"""A feed file that changes between publishes: what is announced, carried out, refused and kept."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import yaml

from dedup_clone.settings.feed import read_feed
from deploy.__main__ import main
from devstack.producer.declared_snapshots import schema
from testkit.stack import Stack
from testkit.stack_snapshots import Row, row
from tests.e2e.feeds import CHANGED as FEED
from tests.e2e.feeds import TODAY, YESTERDAY

OLD_DAY = TODAY - timedelta(days=500)  # only the first snapshot has it
CHANGES, PROBLEMS = 2, 1  # exit statuses of `make plan`
PORTO = {"origin": {"country": "PT", "city": "Porto"}, "colour": "red"}
NEGATIVE = "SELECT date, product_id FROM {{ staging }} AS staged WHERE staged.attr_value < 0\n"


class ChangedFeed:
    """The feed on the running stack. `expected`: target's rows by day and product."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.expected: dict[tuple[date, int], Row] = {}
        self.dags = stack.layout.dags_folder
        self._file = self.dags / "feeds" / f"{FEED}.yaml"

    def change_file(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the feed file, as a deploy of another release does."""
        settings = yaml.safe_load(self._file.read_text())
        change(settings)
        self._file.write_text(yaml.safe_dump(settings, sort_keys=False))

    def plan(self, *arguments: str) -> tuple[int, str]:
        """The exit status of `make plan` on the local stack, and what it prints."""
        shown = io.StringIO()
        with patch.dict("os.environ", self.stack.variables), redirect_stdout(shown):
            status = main(["plan", "--feed", FEED, *arguments], self.dags)
        return status, shown.getvalue()

    def rows(self, snapshot_id: int, **values: Any) -> list[Row]:
        """Rows of today and yesterday. Each snapshot lacks another product, and `values` are those of all rows."""
        products = [product for product in range(5) if product != snapshot_id % 5]
        days = [TODAY, YESTERDAY, *([OLD_DAY] if snapshot_id == 1 else [])]
        common = {"origin": {"country": "PT"}} | values
        return [{**row(day, product, snapshot_id, snapshot_id), **common} for day in days for product in products]

    def land(self, snapshot_id: int, rows: list[Row], *, without: tuple[str, ...] = ()) -> str:
        """Land a snapshot in the declared columns. `without`: columns that its files lack. Returns its run's id."""
        declared = schema(read_feed(self._file).table.to_contract())
        columns = [field for field in declared if field.name not in without]
        return self.stack.land(FEED, snapshot_id, rows, pa.schema(columns))

    def publish(self, snapshot_id: int, rows: list[Row], *, without: tuple[str, ...] = ()) -> None:
        """Land a snapshot, wait until it is published, and compare target with the expected table."""
        self.assert_published(self.land(snapshot_id, rows, without=without), rows)

    def replay(self, snapshot_id: int, rows: list[Row]) -> None:
        form = {"snapshot_id": str(snapshot_id), "reason": "the obstacle is gone"}
        self.assert_published(self.stack.start(f"{FEED}_publish", **form), rows)

    def assert_published(self, run_id: str, rows: list[Row]) -> None:
        self.stack.assert_published(FEED, run_id)
        self.expected |= {(r["date"], r["product_id"]): r for r in rows}
        self.assert_target_as_expected()

    def assert_stopped(self, run_id: str, task_id: str, text: str, dag: str = "publish") -> None:
        """The run must have failed in this task, whose log has the text, and readers see what they saw."""
        assert self.stack.wait_for_run(FEED, run_id, dag) == "failed"
        assert self.stack.task_states(FEED, run_id, dag)[task_id] == "failed"
        assert text in self.stack.task_log(FEED, run_id, task_id, dag)
        self.assert_target_as_expected()

    def assert_target_as_expected(self) -> None:
        found = {(r["date"], r["product_id"]): r for r in self.stack.query(f"SELECT * FROM warehouse.{FEED}")}
        names = [field.name for field in self.target().schema]
        assert found == {key: {name: r.get(name) for name in names} for key, r in self.expected.items()}
        assert self.target().num_rows == len(found), "no key twice"

    def target(self) -> Any:
        return self.stack.bigquery.get_table(f"warehouse.{FEED}")


def a_feed_file_changes(stack: Stack) -> None:
    feed = ChangedFeed(stack)
    feed.publish(1, feed.rows(1))
    a_column_is_added(feed)
    a_type_gets_wider_together_with_a_nested_column(feed)
    a_query_of_the_feed_stops_a_publish(feed)
    a_label_must_be_declared(feed)
    a_shorter_retention_must_be_approved(feed)


def a_column_is_added(feed: ChangedFeed) -> None:
    colour = {"name": "colour", "type": "STRING", "since": 3}
    feed.change_file(lambda settings: settings["table"]["columns"].append(colour))
    status, shown = feed.plan()
    assert (status, "colour" in shown) == (CHANGES, True)
    feed.publish(2, feed.rows(2), without=("colour",))
    assert feed.target().schema[-1].name == "colour"
    assert feed.plan()[0] == 0

    feed.stack.approve(FEED, "rollback", generation=1, reason="behind the added column")
    feed.expected = {(r["date"], r["product_id"]): r for r in feed.rows(1)}
    feed.assert_target_as_expected()
    assert feed.target().schema[-1].name == "colour", "it stays, without values"

    feed.publish(3, feed.rows(3, colour="red"))
    assert {r.get("colour") for r in feed.expected.values()} == {"red", None}
    feed.assert_stopped(feed.land(4, feed.rows(4), without=("colour",)), "resolve_publish", "colour")


def a_type_gets_wider_together_with_a_nested_column(feed: ChangedFeed) -> None:
    def widen(settings: dict[str, Any]) -> None:
        by_name = {column["name"]: column for column in settings["table"]["columns"]}
        by_name["attr_value"]["type"] = "NUMERIC"
        by_name["origin"]["fields"].append({"name": "city", "type": "STRING", "since": 5})

    feed.change_file(widen)
    status, shown = feed.plan()
    assert (status, "attr_value" in shown, "city" in shown) == (CHANGES, True, True)
    for r in feed.expected.values():
        r["origin"] = {**r["origin"], "city": None}
    feed.publish(5, feed.rows(5, attr_value=Decimal("0.25"), **PORTO))

    generation = feed.stack.current(FEED)["generation"] - 1
    rollback = feed.stack.start(f"{FEED}_rollback", generation=generation, reason="behind another type")
    feed.assert_stopped(rollback, "show_difference", "eplay", "rollback")  # a replay is the way


def a_query_of_the_feed_stops_a_publish(feed: ChangedFeed) -> None:
    folder = feed.dags / "feeds" / FEED
    folder.mkdir()
    (folder / "no_negative_values.sql").write_text(NEGATIVE)
    feed.change_file(lambda settings: settings["checks"].update({"sql": [{"name": "no_negative_values"}]}))
    negative = feed.land(6, feed.rows(6, attr_value=Decimal(-1), **PORTO))
    feed.assert_stopped(negative, "check_staging", "no_negative_values")
    feed.publish(6, feed.rows(6, attr_value=Decimal(6), **PORTO))


def a_label_must_be_declared(feed: ChangedFeed) -> None:
    """Somebody has set it on target, where the next swap would lose it."""
    target = feed.target()
    target.labels = {**target.labels, "cost_centre": "42"}
    feed.stack.bigquery.update_table(target, ["labels"])
    rows = feed.rows(7, attr_value=Decimal(7), **PORTO)
    feed.assert_stopped(feed.land(7, rows), "resolve_publish", "cost_centre")
    feed.change_file(lambda settings: settings["table"].update({"options": {"labels": {"cost_centre": "42"}}}))
    feed.replay(7, rows)
    assert feed.target().labels["cost_centre"] == "42"


def a_shorter_retention_must_be_approved(feed: ChangedFeed) -> None:
    feed.change_file(lambda settings: settings["table"].update({"retention_days": 300}))
    rows = feed.rows(8, attr_value=Decimal(8), **PORTO)
    feed.assert_stopped(feed.land(8, rows), "resolve_publish", "retention")
    status, shown = feed.plan()
    assert (status, str(OLD_DAY) in shown) == (PROBLEMS, True)
    assert feed.plan("--apply")[0] != PROBLEMS
    feed.expected = {key: r for key, r in feed.expected.items() if key[0] != OLD_DAY}
    feed.replay(8, rows)
    assert feed.target().time_partitioning.expiration_ms == 300 * 24 * 60 * 60 * 1000
