"""The harness of the job's tests: deliveries are published through the job and applied by the oracle, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pyarrow as pa

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate, DateEntry
from dedup_clone.contract.table import Absent, UpdateIdMode
from testkit.manifest_comparison import assert_manifest
from testkit.oracle import OracleDelivery, OracleState, comparable, comparable_change
from testkit.spark_job_feed import PUBLISH_DAY, RETENTION_DAY, SparkJobFeed
from testkit.table_contracts import oracle_table

Row = dict[str, Any]


@dataclass
class JobAgainstOracle:
    """A feed, and the oracle's state of its table.

    `landed`: by snapshot id, its latest delivery and the rows. `erasures`: the URIs of records of erasures. `since`:
    the first snapshot that must have a column that was added to the feed, by the column's path.
    """

    feed: SparkJobFeed
    state: OracleState = field(init=False)
    landed: dict[int, tuple[Arrival, list[Row]]] = field(default_factory=dict)
    erasures: tuple[str, ...] = ()
    since: dict[str, int] = field(default_factory=dict)
    retention_day: date = RETENTION_DAY

    def __post_init__(self) -> None:
        is_last_changed = self.feed.mode is UpdateIdMode.LAST_CHANGED
        self.state = OracleState(oracle_table(self.feed.table), last_changed=is_last_changed)

    def set_absent(self, keys: Absent, dates: Absent = Absent.KEEP) -> None:
        """Say from now on what becomes of the keys and dates that the newest snapshot lacks."""
        self.feed.table = replace(self.feed.table, absent_keys=keys, absent_dates=dates)
        deletes_keys, deletes_dates = keys is Absent.DELETE, dates is Absent.DELETE
        self.state = replace(self.state, deletes_keys=deletes_keys, deletes_dates=deletes_dates)

    def land(self, snapshot_id: int, rows: Sequence[Row], *, schema: pa.Schema | None = None) -> int:
        """Land a snapshot, to be published later, and return its id."""
        self.landed[snapshot_id] = self.feed.land(snapshot_id, rows, schema=schema), list(rows)
        return snapshot_id

    def play(self, *snapshots: Sequence[Row], plan: Plan | None = None) -> Candidate:
        """Land these snapshots, which have rows, and publish all of them at once."""
        name = self.feed.table.snapshot_id_column
        return self.publish(*(self.land(rows[0][name], rows) for rows in snapshots), plan=plan)

    def publish(self, *snapshot_ids: int, plan: Plan | None = None, dates: tuple[date, ...] | None = None) -> Candidate:
        """Publish landed snapshots, for the first time or again, and compare all that comes of it with the oracle."""
        self.feed.plan = plan or self.feed.plan
        attempt = self.attempt(*snapshot_ids, dates=dates)
        candidate = self.feed.run(attempt)
        delivered = [OracleDelivery(n, self._rows(n, dates)) for n in sorted(snapshot_ids)]
        if self._has_nothing_to_do(attempt):
            delivered = []
        self.commit(candidate, self.state.apply(delivered, self.retention_day, only_some_dates=dates is not None))
        table = self.state.table
        for metrics, delivery in zip(candidate.deliveries, delivered, strict=False):
            kept = [row for row in delivery.rows if table.day(row) >= self.retention_day]
            found = (metrics.delivery.snapshot_id, metrics.dropped_rows, metrics.ties)
            ties = len(kept) - len({table.key(row) for row in kept})
            if self.state.deletes_keys:  # then only surplus rows on dates that the delivery replaces are counted
                assert metrics.ties <= ties
                ties = metrics.ties
            assert found == (delivery.snapshot_id, len(delivery.rows) - len(kept), ties)
        return candidate

    def attempt(self, *snapshot_ids: int, dates: tuple[date, ...] | None = None) -> Attempt:
        arrivals = [self.landed[number][0] for number in sorted(snapshot_ids)]
        attempt = self.feed.attempt(arrivals, retention_day=self.retention_day)
        deliveries = tuple(arrival.delivery for arrival in arrivals)
        return replace(attempt, deliveries=deliveries, dates=dates, erasures=self.erasures, since=self.since)

    def commit(self, candidate: Candidate, expected: OracleState, *, is_publish: bool = True) -> None:
        """Make the candidate live, and compare it with the state that the oracle expects."""
        assert candidate.refused == ()
        before, self.state = self.state, expected
        self.feed.commit(candidate)
        self.compare()
        if is_publish:
            self._compare_changes(candidate, before)

    def compare(self) -> None:
        assert self.feed.manifest
        assert comparable(self.state.table, self.feed.rows()) == self.state.table_rows(), self.feed.plan
        assert_manifest(self.feed.manifest, self.state)

    @property
    def entry(self) -> DateEntry:
        """The entry of the only date."""
        assert self.feed.manifest
        (entry,) = self.feed.manifest.dates
        return entry

    def _has_nothing_to_do(self, attempt: Attempt) -> bool:
        """Whether the live generation includes all deliveries of an attempt, so that the job need not read them."""
        live, requested = self.feed.manifest, set(attempt.deliveries)
        if live is None or self.feed.plan not in (Plan.AUTO, Plan.ADOPT):
            return False
        if self.state.deletes_keys or self.state.has_deleted:
            return False
        if (live.table.columns, live.update_id_mode) != (attempt.table.columns, attempt.update_id_mode):
            return False
        return requested <= set(live.deliveries)

    def _rows(self, snapshot_id: int, dates: tuple[date, ...] | None) -> list[Row]:
        day, empty = self.state.table.day, dict.fromkeys(self.since)
        return [{**empty, **r} for r in self.landed[snapshot_id][1] if dates is None or day(r) in dates]

    def _compare_changes(self, candidate: Candidate, before: OracleState) -> None:
        """Changes are recorded if they are requested, and the parent has a row within the retention."""
        table, found = self.state.table, self.feed.changes(candidate)
        has_parent = any(table.day(row) >= self.retention_day for row in before.rows.values())
        assert (found is not None) == (self.feed.with_changes and has_parent)
        if found is None:
            return
        assert self.feed.manifest
        about = {(row["publish_date"], row["generation"], row["snapshot_id"]) for row in found}
        assert about <= {(PUBLISH_DAY, self.feed.manifest.generation, self.feed.manifest.snapshot_id)}
        assert all(table.key(row) == table.key(row["new_row"] or row["old_row"]) for row in found)
        expected = self.state.changes_since(before, self.retention_day)
        assert sorted(
            comparable_change(table, row["change_type"], row["old_row"], row["new_row"]) for row in found
        ) == sorted(comparable_change(table, change.kind, change.old, change.new) for change in expected)
