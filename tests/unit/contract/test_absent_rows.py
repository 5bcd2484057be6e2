"""Which snapshot's rows a date has if keys are deleted that the newest snapshot lacks."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from dedup_clone.contract.absent_rows import replacing_snapshots
from dedup_clone.contract.table import Absent
from testkit.table_contracts import PRODUCTS
from tests.unit.checks.builders import entry

A, B, C = (date(2026, 1, day) for day in (1, 2, 3))
KEYS = replace(PRODUCTS, absent_keys=Absent.DELETE)
DATES = replace(KEYS, absent_dates=Absent.DELETE)
PARENT = {
    A: replace(entry(A), max_update_id=5),
    B: replace(entry(B), max_update_id=3, newest_snapshot=5),  # the keys of snapshot 5 were erased
}


@pytest.mark.parametrize(
    ("table", "delivered", "expected"),
    [
        (KEYS, {A: [6]}, {A: 6, B: None}),
        (KEYS, {A: [4], C: [4]}, {A: None, B: None, C: 4}),  # a late snapshot adds only what the table lacks
        (KEYS, {A: [5], B: [4]}, {A: 5, B: None}),  # a correction; and one that is older than what was erased
        (KEYS, {A: [6, 8], B: [6]}, {A: 8, B: 6}),
        (DATES, {A: [6]}, {A: 6}),
        (DATES, {A: [6, 8], B: [6]}, {A: 8}),
        (DATES, {A: [4], C: [4]}, {A: None, B: None}),
        (DATES, {}, {A: None, B: None}),  # all of its rows have expired
    ],
)
def test_replacing_snapshots(table: object, delivered: dict[date, list[int]], expected: dict[date, int | None]) -> None:
    assert replacing_snapshots(table, delivered, PARENT, 5, only_some_dates=False) == expected


def test_a_replay_of_some_dates_deletes_no_other() -> None:
    assert replacing_snapshots(DATES, {A: [6]}, PARENT, 5, only_some_dates=True) == {A: 6, B: None}
    assert replacing_snapshots(DATES, {C: [4]}, PARENT, 5, only_some_dates=True) == {A: None, B: None}


def test_the_first_publish_has_the_newest_rows_of_each_date() -> None:
    assert replacing_snapshots(KEYS, {A: [1, 2], B: [1]}, {}, None, only_some_dates=False) == {A: 2, B: 1}
    assert replacing_snapshots(DATES, {A: [1, 2], B: [1]}, {}, None, only_some_dates=False) == {A: 2}
