"""Changes the columns of a feed between publishes, while readers query the table.

First a column is added, later the type of another becomes NUMERIC instead of INT64. No query may fail. One of the
readers' queries reads whole rows, which must have all columns and values of one generation.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

from dedup_clone.settings.table_settings import ColumnSettings
from soak.readers.observation import make_section, observe
from soak.readers.oracle_publisher import OraclePublisher, numbered_row
from soak.readers.stand_in_servers import open_servers
from soak.report import Section
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle
from testkit.spark_dedup_process import SparkDedupProcess

ADDED, WIDENED = "doubled", "attr_value"  # the column that is added, and the one that gets a wider type


def make_row_with_added_column(snapshot_id: int, product: int, day: date) -> Row:
    """A row with a value in the added column."""
    row = numbered_row(snapshot_id, product, day)
    return {**row, ADDED: 2 * row[WIDENED]}


def make_row_with_fraction(snapshot_id: int, product: int, day: date) -> Row:
    """A row with a value that the widened column could not have as INT64."""
    row = make_row_with_added_column(snapshot_id, product, day)
    return {**row, WIDENED: row[WIDENED] + Decimal("0.25")}


class SchemaScenario:
    """The steps of the scenario. `problems`: the differences between target and the oracle, as sentences."""

    def __init__(self, publisher: OraclePublisher, feed: FeedAgainstOracle) -> None:
        self.problems: list[str] = []
        self._publisher = publisher
        self._feed = feed

    def publish(self, times: int = 1) -> None:
        for _ in range(times):
            self._publisher.publish(self._publisher.land())

    def run(self, publishes: int) -> None:
        """Publish `publishes` snapshots in three parts, and change the columns between the parts."""
        third = publishes // 3
        self.publish(third)
        self._add_column()
        self.publish(third)
        self._widen_column()
        self.publish(publishes - 2 * third)
        self.problems += self._publisher.describe_differences()

    def _add_column(self) -> None:
        """Declare a column, and publish a snapshot that still lacks it. Later snapshots have the column."""
        name = self._publisher.land()
        since = self._publisher.next_id
        added = ColumnSettings.model_validate({"name": ADDED, "type": "INT64", "since": since})
        self._feed.declare_columns([*self._feed.feed.table.columns, added])
        self._publisher.columns = (*self._publisher.columns, ADDED)
        self._publisher.publish(name)
        self._publisher.make_row = make_row_with_added_column
        self._publisher.events["added column"] += 1

    def _widen_column(self) -> None:
        columns = self._feed.feed.table.columns
        self._feed.declare_columns(
            [c.model_copy(update={"type": "NUMERIC"}) if c.name == WIDENED else c for c in columns]
        )
        self._publisher.make_row = make_row_with_fraction
        self._publisher.events["widened column"] += 1


def run(folder: Path, *, publishes: int, per_second: float, must_keep_rate: bool) -> Section:
    """Run the scenario on servers of its own below `folder`, with the real dedup job.

    `publishes`: the number of publishes after the first one, at least six. `must_keep_rate`: whether a lower rate of
    the readers than `per_second` is a problem.
    """
    with open_servers(folder) as servers, SparkDedupProcess(servers.feed.storage) as dedup:
        feed = FeedAgainstOracle((servers.feed.storage, servers.feed.bigquery), servers.feed.feed)
        feed.dedup = dedup
        publisher = OraclePublisher(feed)
        scenario = SchemaScenario(publisher, feed)
        scenario.publish()
        observation = observe(replace(servers, feed=feed), per_second, lambda: scenario.run(publishes))
    problems = scenario.problems + (observation.rate_problems() if must_keep_rate else [])
    return make_section("Changed columns under readers", publisher, observation, problems)
