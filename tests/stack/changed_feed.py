"""One feed whose file changes between publishes, and the table that readers must see after each of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import yaml

from dedup_clone.settings.feed import read_feed
from deploy.plan import main as plan
from devstack.producer.declared_snapshots import schema
from soak.example_feeds import write_example_feed
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import COLUMNS, Row, StackClient, row
from testkit.waiting import wait_for

FEED = "changed"
TODAY = datetime.now(UTC).date()
OLD_DAY = TODAY - timedelta(days=500)  # only the first snapshot has it


class ChangedFeed:
    """The feed on the running stack. `folder`: where the landed snapshots are written."""

    def __init__(self, proxied_stack: ProxiedStack, stack: StackClient, folder: Path) -> None:
        self.stack = stack
        self.proxied_stack = proxied_stack
        self.expected: dict[tuple[date, int], Row] = {}
        self._folder = folder
        self._dags = proxied_stack.layout.dags_folder
        columns = [{"name": name, "type": "DATE" if name == "date" else "INT64"} for name in COLUMNS]
        origin = {"name": "origin", "type": "STRUCT", "fields": [{"name": "country", "type": "STRING"}]}
        write_example_feed(self._dags, FEED, table={"columns": [*columns, origin]})
        dags = [f"{FEED}_{dag}" for dag in ("watch", "publish", "rollback")]
        wait_for(lambda: all(stack.airflow.is_paused(dag) is False for dag in dags), f"Airflow knows {dags}")

    @property
    def generation(self) -> int:
        return self.proxied_stack.current(FEED).generation or 0

    def change_file(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the feed file, as a deploy of another release does."""
        path = self._dags / "feeds" / f"{FEED}.yaml"
        settings = yaml.safe_load(path.read_text())
        change(settings)
        path.write_text(yaml.safe_dump(settings, sort_keys=False))

    def add_sql_check(self, name: str, query: str) -> None:
        folder = self._dags / "feeds" / FEED
        folder.mkdir()
        (folder / f"{name}.sql").write_text(query)
        self.change_file(lambda settings: settings["checks"].update({"sql": [{"name": name}]}))

    def plan(self, *arguments: str) -> tuple[int, str]:
        """The exit status of `make plan` on the local stack, and what it prints."""
        shown = io.StringIO()
        with patch.dict("os.environ", self.stack.variables), redirect_stdout(shown):
            status = plan(["--feed", FEED, *arguments], self._dags)
        return status, shown.getvalue()

    def rows(self, snapshot_id: int, **values: Any) -> list[Row]:
        """Rows of today and yesterday. Each snapshot lacks another product, and `values` are those of all rows."""
        products = [product for product in range(5) if product != snapshot_id % 5]
        days = [TODAY, TODAY - timedelta(days=1), *([OLD_DAY] if snapshot_id == 1 else [])]
        common = {"origin": {"country": "PT"}} | values
        return [{**row(day, product, snapshot_id, snapshot_id), **common} for day in days for product in products]

    def land(self, snapshot_id: int, rows: list[Row], *, without: tuple[str, ...] = ()) -> str:
        """Land a snapshot in the declared columns. `without`: columns that its files lack. Returns its run's id."""
        feed = read_feed(self._dags / "feeds" / f"{FEED}.yaml")
        declared = schema(feed.table.to_contract())
        columns = [field for field in declared if field.name not in without]
        folder = self._folder / str(len(list(self._folder.iterdir())))
        return self.stack.land(FEED, snapshot_id, rows, folder, schema=pa.schema(columns))

    def publish(self, snapshot_id: int, rows: list[Row], *, without: tuple[str, ...] = ()) -> None:
        """Land a snapshot, wait until it is published, and compare target with the expected table."""
        self.wait_until_published(self.land(snapshot_id, rows, without=without), rows)

    def wait_until_published(self, run_id: str, rows: list[Row]) -> None:
        assert self.stack.wait_for_run(FEED, run_id) == "success", self.stack.task_states(FEED, run_id)
        self.expected |= {(r["date"], r["product_id"]): r for r in rows}
        self.assert_target_as_expected()

    def assert_stopped(self, run_id: str, task_id: str, *texts: str) -> None:
        """The run must have failed in this task, whose log has these texts, and readers see what they saw."""
        assert self.stack.wait_for_run(FEED, run_id) == "failed"
        states = self.stack.task_states(FEED, run_id)
        assert states[task_id] == "failed", states
        log = self.stack.task_log(FEED, run_id, task_id)
        assert [text for text in texts if text not in log] == [], log
        self.assert_target_as_expected()

    def assert_target_as_expected(self) -> None:
        found = [dict(r.items()) for r in self.stack.bigquery.query_and_wait(f"SELECT * FROM warehouse.{FEED}")]
        names = [field.name for field in self.target().schema]
        expected = [{name: r.get(name) for name in names} for r in self.expected.values()]
        assert sorted(found, key=_key) == sorted(expected, key=_key)

    def target(self) -> Any:
        return self.stack.bigquery.get_table(f"warehouse.{FEED}")


def _key(found: Row) -> tuple[date, int]:
    return found["date"], found["product_id"]
