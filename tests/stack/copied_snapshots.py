"""Copies two snapshots of a feed into the landing bucket with Google's command line tools, and publishes them."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from testkit.oracle import OracleDelivery, OracleState, OracleTable
from testkit.stack_client import Row, StackClient, as_tuples, row

TODAY = datetime.now(UTC).date()
DAYS = [TODAY - timedelta(days=n) for n in range(3)]
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))


OLDEST = DAYS[-1] - timedelta(days=700)


def states_after(*snapshots: list[Row]) -> list[OracleState]:
    """The oracle's tables, an empty one first, then one after each publish of one of these snapshots."""
    states = [OracleState(TABLE)]
    for rows in snapshots:
        states.append(states[-1].apply([OracleDelivery(rows[0]["update_id"], rows)], OLDEST))
    return states


def table_after(*snapshots: list[Row]) -> list[tuple[object, ...]]:
    """The oracle's table after one publish of each of these snapshots."""
    return as_tuples(list(states_after(*snapshots)[-1].rows.values()))


@dataclass(frozen=True)
class Copied:
    """How the two runs ended, the rows of target, and the expected tables after each."""

    ends: tuple[str, ...]
    found: list[tuple[object, ...]]
    states: list[OracleState]

    @property
    def expected(self) -> list[tuple[object, ...]]:
        return as_tuples(list(self.states[-1].rows.values()))


def publish_copied(stack: StackClient, feed: str, folder: Path) -> Copied:
    """Publish the two snapshots one after the other."""
    chance = random.Random(4)
    first = [row(day, product, chance.randrange(100), 5001) for day in DAYS for product in range(700)]
    second = [
        {**r, "update_id": 5002, "attr_value": r["attr_value"] + (chance.random() < 0.01)}
        for r in first
        if chance.random() > 0.01
    ] + [row(DAYS[0], product, 7, 5002) for product in range(9000, 9010)]
    ends = []
    for snapshot_id, rows in ((5001, first), (5002, second)):
        source = stack.write_snapshot(folder / str(snapshot_id), rows)
        _copy(stack, source, f"gs://landing/{feed}/snapshot_id={snapshot_id}/")
        run_id = stack.mark(feed, snapshot_id)
        ends.append(stack.wait_for_run(feed, run_id))
    return Copied(tuple(ends), stack.rows(feed), states_after(first, second)[1:])


def _copy(stack: StackClient, folder: Path, target: str) -> None:
    """Copy with gsutil, or with the client library if gsutil is not installed."""
    dates = [str(path) for path in sorted(folder.iterdir())]
    if shutil.which("gsutil"):
        stack.run_tool("gsutil", "-q", "cp", "-r", *dates, target)
    else:
        for file in sorted(folder.rglob("*.parquet")):
            name = target.removeprefix("gs://landing/") + str(file.relative_to(folder))
            stack.landing.blob(name).upload_from_filename(file)


def assert_bq_reads_the_same(stack: StackClient, feed: str, rows: int) -> None:
    if not shutil.which("bq"):
        return
    shown = json.loads(stack.run_tool("bq", "show", "--format=json", f"warehouse.{feed}"))
    assert int(shown["numRows"]) == rows
    assert shown["cloneDefinition"]["baseTableReference"]["tableId"] == f"{feed}_staging"
    sql = f"SELECT COUNT(*) AS n, COUNT(DISTINCT product_id) AS products FROM warehouse.{feed}"
    (answer,) = json.loads(stack.run_tool("bq", "query", "--quiet", "--nouse_legacy_sql", "--format=json", sql))
    assert int(answer["n"]) == rows
