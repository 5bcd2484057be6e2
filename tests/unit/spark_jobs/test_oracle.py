"""The oracle itself, on histories small enough to be worked out by hand."""

from __future__ import annotations

import math
from datetime import date
from itertools import pairwise
from typing import Any

import pytest

from testkit.oracle import DateCounts, OracleDelivery, OracleState, OracleTable, ordered

TABLE = OracleTable(partition_column="day", snapshot_id_column="id", keys=("day", "k"), value_columns=("v",))
DAY, NEXT = date(2026, 1, 1), date(2026, 1, 2)


def row(snapshot_id: int, key: str, value: Any, day: date = DAY) -> dict[str, Any]:
    return {"day": day, "k": key, "v": value, "id": snapshot_id}


def delivery(snapshot_id: int, **values: Any) -> OracleDelivery:
    return OracleDelivery(snapshot_id, [row(snapshot_id, key, value) for key, value in values.items()])


def contents(state: OracleState) -> dict[str, tuple[Any, int]]:
    return {r["k"]: (r["v"], r["id"]) for r in state.rows.values()}


def test_newest_snapshot_wins_and_absent_keys_stay() -> None:
    state = OracleState(TABLE).apply([delivery(1, a=1, b=1)], DAY).apply([delivery(2, a=5, c=5)], DAY)
    assert contents(state) == {"a": (5, 2), "b": (1, 1), "c": (5, 2)}
    assert state.counts == {DAY: DateCounts(rows=3, new_keys=1, changed=1, survivors=1, ties=0)}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (2, 1, 3, 1, 2)])
def test_any_order_and_repeats_end_in_the_same_table(order: tuple[int, ...]) -> None:
    given = {1: delivery(1, a=1, b=1), 2: delivery(2, b=2, c=2), 3: delivery(3, c=3)}
    state = OracleState(TABLE)
    for number in order:
        state = state.apply([given[number]], DAY)
    assert contents(state) == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}


def test_redelivery_counts_and_ties_are_surplus_rows() -> None:
    state = OracleState(TABLE).apply([delivery(1, a=9)], DAY)
    tied = OracleDelivery(1, [row(1, "a", None), row(1, "a", 3), row(1, "a", 2)])
    state = state.apply([tied], DAY)
    assert contents(state) == {"a": (3, 1)}
    assert state.counts[DAY].ties == 2


def test_expired_rows_are_dropped_from_state_and_delivery() -> None:
    state = OracleState(TABLE).apply([delivery(1, a=1)], DAY)
    state = state.apply([OracleDelivery(2, [row(2, "b", 2), row(2, "c", 2, NEXT)])], NEXT)
    assert contents(state) == {"c": (2, 2)}
    assert state.dropped == 2


def test_last_changed_keeps_the_id_while_values_are_equal() -> None:
    state = OracleState(TABLE, last_changed=True).apply([delivery(1, a=1, b=math.nan)], DAY)
    state = state.apply([delivery(2, a=2, b=math.nan), delivery(3, a=1, b=math.nan)], DAY)
    assert contents(state)["a"] == (1, 3)
    assert contents(state)["b"][1] == 1


def test_values_are_ordered_as_the_contract_says() -> None:
    ascending: list[list[Any]] = [
        [None, -math.inf, -1.0, 0.0, math.inf, math.nan],
        [None, "", "a", "ab", "z", "é", "\uffee", "\U0001f600"],
        [None, b"", b"\x00", b"\x7f", b"\x80", b"\xff"],
        [None, False, True],
        [[], [None], [1], [1, None], [1, 1], [2]],
        [None, {"a": None, "b": 9}, {"a": 1, "b": None}, {"a": 1, "b": 0}],
    ]
    for values in ascending:
        keys = [ordered(value) for value in values]
        assert keys == sorted(keys)
        assert all(low < high for low, high in pairwise(keys))
    assert ordered(-0.0) == ordered(0.0)
    assert ordered(None) == ordered([])
