"""Lands small snapshots, remembers all of them, and checks that a feed with them is as it must be."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from google.api_core.exceptions import NotFound

from devstack.demo.table_comparison import differences, expected_table, read_target
from testkit.stack import Stack
from testkit.stack_snapshots import Row, row
from testkit.waiting import wait_for
from tests.e2e.feeds import TODAY, YESTERDAY

PRODUCTS = 8
STATUS_TIMEOUT_S = timedelta(minutes=7).total_seconds()  # the watchdog writes what a publish could not


def small_snapshot(snapshot_id: int) -> list[Row]:
    """Each snapshot lacks another product than the one before, and has one key that no other snapshot has."""
    rows = [
        row(day, product, snapshot_id * 10 + product, snapshot_id)
        for day in (YESTERDAY, TODAY)
        for product in range(PRODUCTS)
        if product != snapshot_id % PRODUCTS
    ]
    return [*rows, row(TODAY, 1000 + snapshot_id, 7, snapshot_id)]


class Deliveries:
    """Lands snapshots with ascending ids. `landed`: of each feed the ids of the runs that its deliveries may get."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._last_id = 0
        self.landed: dict[str, list[str]] = defaultdict(list)

    def land(self, feed: str, count: int = 1) -> list[str]:
        """Land snapshots at once. Returns the ids of the publish runs that they may get; the last one must exist."""
        ids = range(self._last_id + 1, self._last_id + 1 + count)
        self._last_id = ids[-1]
        runs = self.stack.land_at_once(feed, {id_: small_snapshot(id_) for id_ in ids})
        self.landed[feed] += runs
        return runs

    def publish(self, feed: str) -> None:
        self.stack.assert_published(feed, *self.land(feed))

    def wait_until_published(self, feed: str) -> None:
        """Wait until all that landed is published, and no publish run is active."""
        self.stack.assert_published(feed, self.landed[feed][-1])
        wait_for(lambda: _published(self.stack, feed) == names_of(self.landed[feed]), f"[{feed}] has published all")
        for run_id in self.stack.run_ids(feed):
            self.stack.wait_for_run(feed, run_id)

    def assert_consistent(self, feed: str) -> None:
        """All that landed is published once and right. Call it while no run of the feed is active."""
        assert_runs(self.stack, feed, self.landed[feed])
        assert_records(self.stack, feed, self.landed[feed])


def assert_runs(stack: Stack, feed: str, expected: list[str]) -> None:
    """All publish runs must be of these deliveries, and the newest must have one; others may have arrived with it.

    Only a failed run may be repeated, as `RUN__N`.
    """
    states = {run["dag_run_id"]: run["state"] for run in stack.runs(feed)}
    repeated = {repeat: run for repeat in states for run in expected if repeat.startswith(f"{run}__")}
    assert {expected[-1]} <= states.keys() - repeated.keys() <= set(expected)
    assert {states[run] for run in repeated.values()} <= {"failed"}, states


def assert_records(stack: Stack, feed: str, runs: list[str]) -> None:
    """The table and all records must be those after these deliveries, each of which was published exactly once.

    The table is computed again from the landed files. Generations build on each other without a gap. CURRENT, ledger,
    manifest, target, staging and status table name the same one, and nobody has the lease. The newest two generations
    have their files, and nothing else has.
    """
    assert differences(read_target(stack.connection, feed), expected_table(stack.landing, feed)) == []
    deliveries = names_of(runs)
    assert sorted(stack.registered(feed)) == deliveries
    assert _published(stack, feed) == deliveries
    published = [record for record in stack.ledger(feed) if record["outcome"] == "published"]
    generations = [record["generation"] for record in published]
    assert [record["parent"] for record in published] == [None, *generations[:-1]]

    current, newest = stack.current(feed), published[-1]
    generation = newest["generation"]
    assert (current["generation"], current["intent"]) == (generation, None)
    assert current["staging"]["holds"] == current["manifest_digest"]
    assert stack.state(f"{feed}/manifests/{generation:08d}.json")["attempt"] == newest["attempt"]
    assert stack.bigquery.get_table(f"warehouse.{feed}").labels["dedup_clone_generation"] == str(generation)
    data = {name.split("/")[2] for name in stack.state_names(f"{feed}/data/")}
    assert data == {record["attempt"] for record in published[-2:]}
    wait_for_rows(stack, f"SELECT generation FROM warehouse.dedup_clone_status WHERE feed = '{feed}'", [generation])


def names_of(runs: list[str]) -> list[str]:
    """The names of the deliveries after which these runs are named, in the order of text."""
    return sorted(run.removeprefix("publish__").replace("__", "-") for run in runs)


def _published(stack: Stack, feed: str) -> list[str]:
    """The names of the deliveries that the ledger's publishes included, in the order of text."""
    published = [record for record in stack.ledger(feed) if record["outcome"] == "published"]
    applied = [delivery for record in published for delivery in record["deliveries"]]
    return sorted(f"{d['snapshot_id']}-{d['marker_generation']}" for d in applied)


def wait_for_rows(stack: Stack, sql: str, expected: list[Any]) -> None:
    """Wait until the query has these values of one column, in any order."""
    found: list[Any] = []

    def is_right() -> bool:
        try:
            found[:] = sorted(value for found_row in stack.query(sql) for value in found_row.values())
        except NotFound:  # the table is gone for the moment
            found[:] = []
        return found == sorted(expected)

    wait_for(is_right, f"[{sql}] has {expected}", STATUS_TIMEOUT_S, poll_interval_s=1)
