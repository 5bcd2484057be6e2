"""Random histories of publishes, rollbacks, erasures and rebuilds: the changes are the difference of the generations.

The histories need no Spark session. Their tables are so small that keys often go missing, return and are erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate, DateOutcome
from dedup_clone.contract.request import DedupRequest, Duplicates, Plan
from dedup_clone.contract.table import Column, UpdateIdMode
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import RETENTION_DAY, SparkJobFeed
from testkit.table_contracts import PRODUCTS, oracle_table
from tests.spark.erased_keys import erase
from tests.spark.expected_changes import assert_changes
from tests.spark.product_rows import FIRST, row
from tests.thoroughness import times

pytestmark = pytest.mark.spark

DAYS, KEYS, STEPS = 3, 7, 14
EXPORT = 2**63 - 2
# How often a history takes each step; the names are those of the methods of History.
WEIGHTS = {
    "next_snapshot": 6,
    "next_two_snapshots": 2,
    "late_snapshot": 3,
    "corrected_snapshot": 2,
    "replay": 2,
    "replay_dates": 4,
    "rollback": 3,
    "erasure": 2,
    "rebuild": 2,
    "new_column": 1,
    "other_mode": 1,
    "expiration": 1,
}


@dataclass
class History:
    """One feed, and the oracle's state of its table.

    `landed`: by snapshot id, its latest delivery and the rows. `restorable`: the generations that a rollback may
    restore. `erasures`: URIs of records.
    """

    area: SparkJobFeed
    random: Random
    state: OracleState = field(default_factory=lambda: OracleState(oracle_table(PRODUCTS)))
    landed: dict[int, tuple[Arrival, list[dict[str, Any]]]] = field(default_factory=dict)
    restorable: list[tuple[Candidate, OracleState]] = field(default_factory=list)
    erasures: tuple[str, ...] = ()
    since: dict[str, int] = field(default_factory=dict)
    retention_day: date = RETENTION_DAY

    def play(self) -> list[str]:
        """Take random steps, and return their names."""
        names = ["next_snapshot", *self.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS)]
        for name in names:
            getattr(self, name)()
        return names

    def next_snapshot(self) -> None:
        self._publish([self._land(self._newest_id + 10)], self._any_plan())

    def next_two_snapshots(self) -> None:
        if self._is_last_seen:
            self._publish([self._land(self._newest_id + 10), self._land(self._newest_id + 10)])

    def late_snapshot(self) -> None:
        if self._is_last_seen:
            free = set(range(1, self._newest_id)) - set(self.landed)
            self._publish([self._land(self.random.choice(sorted(free)))], self._any_plan())

    def corrected_snapshot(self) -> None:
        self._publish([self._land(self._newest_id)])

    def replay(self) -> None:
        self._publish([self._known_id()], self._any_plan())

    def replay_dates(self) -> None:
        snapshot_id = self._known_id()
        dates = sorted({r["date"] for r in self.landed[snapshot_id][1]})
        self._publish([snapshot_id], dates=tuple(self.random.sample(dates, self.random.randint(1, len(dates)))))

    def rollback(self) -> None:
        """As resolve_rollback.py does it: the manifest of the restored generation under another number."""
        if not self.restorable:
            return
        candidate, state = self.random.choice(self.restorable)
        assert candidate.manifest
        restored = replace(
            candidate.manifest,
            generation=self.area.request([]).generation,
            restores=candidate.manifest.generation,
            dates=tuple(replace(e, changed=None, plan=DateOutcome.RESTORED) for e in candidate.manifest.dates),
        )
        self.area.commit(replace(candidate, manifest=restored))
        for name in self.state.table.value_columns:
            state = state if name in state.table.value_columns else state.with_column(name)
        self.state = replace(state, counts={}, last_changed=self.state.last_changed)

    def erasure(self) -> None:
        """Erase one key, or all keys that the newest snapshot of a date contains."""
        table, day = self.state.table, self.random.choice(sorted({r["date"] for r in self.state.rows.values()}))
        rows = [r for r in self.state.rows.values() if r["date"] == day]
        newest = [r for r in rows if r["update_id"] == self.state.newest.get(day)]
        erased = self.random.choice([rows[:1], newest or rows[:1]])
        if len(self.erasures) < 2 and len(erased) < len(self.state.rows):
            text = "".join(f"{line}\n" for line in ["product_id", *(r["product_id"] for r in erased)])
            self.erasures = (*self.erasures, erase(self.area, text, *self.erasures))
            self._compare(self.state.erase(frozenset(map(table.key, erased))))
            self.restorable.clear()

    def rebuild(self) -> None:
        state = self.state.apply([], self.retention_day)
        if state.rows:
            arrival = self.area.land(EXPORT, list(state.rows.values()))
            request = self.area.request([arrival], retention_day=self.retention_day)
            assert self.area.manifest
            newest = {e.date: e.newest_snapshot for e in self.area.manifest.dates if e.newest_snapshot is not None}
            request = replace(request, parent=None, takes_over=Duplicates.REFUSE, newest_snapshots=newest)
            self._commit(self.area.run(replace(request, plan=Plan.REWRITE)), state, is_publish=False)
            self.restorable.clear()

    def new_column(self) -> None:
        columns = self.area.table.columns
        name = f"note_{len(columns)}"
        self.since = {**self.since, name: self._newest_id + 1}
        self.area.table = replace(self.area.table, columns=(*columns, Column(name, "STRING")))
        self.state = self.state.with_column(name)

    def other_mode(self) -> None:
        modes = {UpdateIdMode.LAST_SEEN: UpdateIdMode.LAST_CHANGED, UpdateIdMode.LAST_CHANGED: UpdateIdMode.LAST_SEEN}
        self.area.mode = modes[self.area.mode]
        self.state = replace(self.state, last_changed=not self._is_last_seen)

    def expiration(self) -> None:
        self.retention_day = FIRST + timedelta(days=1)

    @property
    def _newest_id(self) -> int:
        return max(self.landed, default=0)

    @property
    def _is_last_seen(self) -> bool:
        return self.area.mode is UpdateIdMode.LAST_SEEN

    def _known_id(self) -> int:
        """A landed snapshot; in mode last_changed the newest one, because others are refused as late."""
        return self.random.choice(sorted(self.landed)) if self._is_last_seen else self._newest_id

    def _any_plan(self) -> Plan:
        return self.random.choice([Plan.AUTO, Plan.REWRITE])

    def _land(self, snapshot_id: int) -> int:
        """Land a snapshot, which may lack dates and keys that others have."""
        days = [day for day in self._days() if self.random.random() < 0.8] or self._days()[-1:]
        # Each date has products of its own, because an erasure cannot name the date.
        products = [(day, 10 * day.day + number) for day in days for number in range(KEYS)]
        keys = [products[0], *(key for key in products[1:] if self.random.random() < 0.7)]
        notes = self.state.table.value_columns[1:]
        rows = [
            {
                **row(snapshot_id, product, self.random.choice([None, 1]), day),
                **{name: self.random.choice([None, "n"]) for name in notes},
            }
            for day, product in keys
        ]
        self.landed[snapshot_id] = self.area.land(snapshot_id, rows), rows
        return snapshot_id

    def _days(self) -> list[date]:
        return [FIRST + timedelta(days=number) for number in range(DAYS)]

    def _publish(
        self, snapshot_ids: Sequence[int], plan: Plan = Plan.AUTO, dates: tuple[date, ...] | None = None
    ) -> None:
        self.area.plan = plan
        arrivals = [self.landed[number][0] for number in snapshot_ids]
        request = self.area.request(arrivals, retention_day=self.retention_day)
        deliveries = tuple(map(self.area.requested_delivery, arrivals))
        request = replace(request, deliveries=deliveries, dates=dates, erasures=self.erasures, since=self.since)
        candidate = self.area.run(request)
        delivered = [OracleDelivery(number, self._rows(number, dates)) for number in snapshot_ids]
        if plan is Plan.AUTO and self._includes(request):
            delivered = []
        self._commit(candidate, self.state.apply(delivered, self.retention_day), is_publish=True)

    def _includes(self, request: DedupRequest) -> bool:
        """Whether the live generation includes all deliveries of a request, so that the job need not read them."""
        live, requested = self.area.manifest, {item.delivery for item in request.deliveries}
        if live is None or (live.table.columns, live.update_id_mode) != (request.table.columns, request.update_id_mode):
            return False
        return requested <= set(live.deliveries)

    def _rows(self, snapshot_id: int, dates: tuple[date, ...] | None) -> list[dict[str, Any]]:
        empty = dict.fromkeys(self.since)
        return [{**empty, **r} for r in self.landed[snapshot_id][1] if dates is None or r["date"] in dates]

    def _commit(self, candidate: Candidate, state: OracleState, *, is_publish: bool) -> None:
        assert candidate.refused == ()
        self.area.commit(candidate)
        before = self.state
        self._compare(state)
        if is_publish:
            assert_changes(self.area, candidate, before, state, self.retention_day)
        self.restorable.append((candidate, state))

    def _compare(self, state: OracleState) -> None:
        self.state = state
        assert comparable(state.table, self.area.rows()) == state.table_rows()
        for day, counts in state.counts.items():
            entry = self.area.entry(day)
            found = (entry.rows, entry.new_keys, entry.changed, entry.survivors, entry.ties)
            assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties), day


@pytest.mark.parametrize("seed", range(times(16, 300)))
def test_the_changes_are_the_difference_of_the_generations(tmp_path: Path, seed: int) -> None:
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, with_changes=True)
    assert len(History(area, Random(seed)).play()) == STEPS + 1
