"""UPDATE, DELETE and MERGE of random tables and clauses have the same result as a plain loop over the rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.thoroughness import times
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

Row = tuple[Any, Any, Any]  # day, k, v
Truth = bool | None
DAYS = (date(2026, 1, 1), date(2026, 1, 2), None)
TOO_MANY = "must match at most one source row"


@dataclass(frozen=True)
class Condition:
    """An SQL condition and its value for a target row and a source row."""

    sql: str
    holds: Callable[[Any, Any], Truth]


def equal(a: Any, b: Any) -> Truth:
    return None if a is None or b is None else a == b


def less(a: Any, b: Any) -> Truth:
    return None if a is None or b is None else a < b


def both(a: Truth, b: Truth) -> Truth:
    return False if a is False or b is False else None if a is None or b is None else True


ON = (
    Condition("t.k = s.k", lambda t, s: equal(t[1], s[1])),
    Condition("t.day = s.day AND t.k = s.k", lambda t, s: both(equal(t[0], s[0]), equal(t[1], s[1]))),
    Condition("t.v < s.v", lambda t, s: less(t[2], s[2])),
    Condition("s.k = 1 AND t.k = 1", lambda t, s: both(equal(s[1], 1), equal(t[1], 1))),
    Condition("FALSE", lambda t, s: False),
)
OF_TARGET = (
    Condition("t.v > 1", lambda t, s: less(1, t[2])),
    Condition("t.v IS NULL", lambda t, s: t[2] is None),
    Condition("t.day = DATE '2026-01-01'", lambda t, s: equal(t[0], DAYS[0])),
    Condition("TRUE", lambda t, s: True),
)
OF_SOURCE = (
    Condition("s.v > 1", lambda t, s: less(1, s[2])),
    Condition("s.k = 0", lambda t, s: equal(s[1], 0)),
    Condition("TRUE", lambda t, s: True),
)
OF_BOTH = (*OF_TARGET, *OF_SOURCE, Condition("t.v = s.v", lambda t, s: equal(t[2], s[2])))

rows = st.lists(
    st.tuples(st.sampled_from(DAYS), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3))), max_size=6
)


@dataclass(frozen=True)
class Clause:
    kind: str
    condition: Condition
    action: str

    def sql(self) -> str:
        values = {
            "update": "UPDATE SET v = s.v, day = s.day" if self.kind == "MATCHED" else "UPDATE SET v = t.k + 10",
            "delete": "DELETE",
            "insert": "INSERT (v, k, day) VALUES (s.v, s.k + 100, s.day)",
            "row": "INSERT ROW",
        }
        return f"WHEN {self.kind} AND {self.condition.sql} THEN {values[self.action]}"


clauses = st.lists(
    st.one_of(
        st.builds(Clause, st.just("MATCHED"), st.sampled_from(OF_BOTH), st.sampled_from(["update", "delete"])),
        st.builds(
            Clause, st.just("NOT MATCHED BY SOURCE"), st.sampled_from(OF_TARGET), st.sampled_from(["update", "delete"])
        ),
        st.builds(
            Clause, st.just("NOT MATCHED BY TARGET"), st.sampled_from(OF_SOURCE), st.sampled_from(["insert", "row"])
        ),
    ),
    min_size=1,
    max_size=4,
)


def first_that_holds(found: list[Clause], kind: str, target: Any, source: Any) -> str | None:
    return next((c.action for c in found if c.kind == kind and c.condition.holds(target, source) is True), None)


def merged(
    target: list[Row], source: list[Row], on: Condition, found: list[Clause]
) -> tuple[list[Row], list[int]] | None:
    """The rows after MERGE, and the counts of inserted, updated and deleted rows. None if BigQuery refuses."""
    after: list[Row] = []
    inserted = updated = deleted = 0
    for t in target:
        matches = [s for s in source if on.holds(t, s) is True]
        acts = [(action, s) for s in matches if (action := first_that_holds(found, "MATCHED", t, s)) is not None]
        if len(acts) > 1:
            return None
        if not matches and (alone := first_that_holds(found, "NOT MATCHED BY SOURCE", t, None)) is not None:
            acts = [(alone, None)]  # type: ignore[list-item]
        if not acts:
            after.append(t)
        elif acts[0][0] == "delete":
            deleted += 1
        else:
            s = acts[0][1]
            after.append((t[0], t[1], t[1] + 10) if s is None else (s[0], t[1], s[2]))
            updated += 1
    for s in source:
        if not any(on.holds(t, s) is True for t in target):
            action = first_that_holds(found, "NOT MATCHED BY TARGET", None, s)
            if action is not None:
                after.append(s if action == "row" else (s[0], s[1] + 100, s[2]))
                inserted += 1
    return after, [inserted, updated, deleted]


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    with tempfile.TemporaryDirectory() as folder:
        found = Warehouse(Path(folder))
        found.statistics(
            "CREATE SCHEMA d; CREATE TABLE d.t (day DATE, k INT64, v INT64) PARTITION BY day; "
            "CREATE TABLE d.s (day DATE, k INT64, v INT64)"
        )
        yield found


def literal(value: Any) -> str:
    return "NULL" if value is None else f"DATE '{value}'" if isinstance(value, date) else str(value)


def put(warehouse: Warehouse, table: str, content: list[Row]) -> None:
    """Replaces the content by two INSERTs, so that partitions have several segments."""
    statements = [f"TRUNCATE TABLE {table}"]
    for part in (content[::2], content[1::2]):
        if part:
            values = ", ".join(f"({', '.join(map(literal, row))})" for row in part)
            statements.append(f"INSERT {table} VALUES {values}")
    warehouse.statistics("; ".join(statements))


RANDOM = settings(
    max_examples=times(8, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@RANDOM
@given(rows, rows, st.sampled_from(ON), clauses)
def test_merge(warehouse: Warehouse, target: list[Row], source: list[Row], on: Condition, found: list[Clause]) -> None:
    put(warehouse, "d.t", target)
    put(warehouse, "d.s", source)
    expected = merged(target, source, on, found)
    text = " ".join(clause.sql() for clause in found)
    job = warehouse.run(f"MERGE d.t AS t USING d.s AS s ON {on.sql} {text}")
    if expected is None:
        assert job.error is not None
        assert TOO_MANY in job.error["message"]
        assert Counter(warehouse.rows("d.t")) == Counter(target)
        return
    assert job.error is None, job.error
    counts = job.statistics["query"]["dmlStats"]
    assert [int(counts[f"{kind}RowCount"]) for kind in ("inserted", "updated", "deleted")] == expected[1]
    assert Counter(warehouse.rows("d.t")) == Counter(expected[0])


@RANDOM
@given(rows, rows, st.sampled_from(ON), st.sampled_from(OF_BOTH))
def test_update_with_a_source(
    warehouse: Warehouse, target: list[Row], source: list[Row], on: Condition, more: Condition
) -> None:
    put(warehouse, "d.t", target)
    put(warehouse, "d.s", source)
    job = warehouse.run(f"UPDATE d.t AS t SET v = s.v, day = s.day FROM d.s AS s WHERE {on.sql} AND {more.sql}")
    matches = [[s for s in source if both(on.holds(t, s), more.holds(t, s))] for t in target]
    if any(len(found) > 1 for found in matches):
        assert job.error is not None
        assert TOO_MANY in job.error["message"]
        return
    assert job.error is None, job.error
    expected = [(found[0][0], t[1], found[0][2]) if found else t for t, found in zip(target, matches, strict=True)]
    assert int(job.statistics["query"]["numDmlAffectedRows"]) == sum(map(len, matches))
    assert Counter(warehouse.rows("d.t")) == Counter(expected)


@RANDOM
@given(rows, st.sampled_from(OF_TARGET), st.booleans())
def test_update_and_delete_by_condition(
    warehouse: Warehouse, target: list[Row], condition: Condition, deletes: bool
) -> None:
    put(warehouse, "d.t", target)
    statement = "DELETE FROM d.t AS t" if deletes else "UPDATE d.t AS t SET k = t.k + 1, v = t.k"
    job = warehouse.run(f"{statement} WHERE {condition.sql}")
    assert job.error is None, job.error
    chosen = [condition.holds(t, None) is True for t in target]
    changed = [None if deletes else (t[0], t[1] + 1, t[1]) for t in target]
    expected = [new if is_chosen else t for t, new, is_chosen in zip(target, changed, chosen, strict=True)]
    assert Counter(warehouse.rows("d.t")) == Counter(row for row in expected if row is not None)
