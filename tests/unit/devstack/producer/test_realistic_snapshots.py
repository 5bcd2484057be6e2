from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from devstack.producer import realistic_snapshots
from devstack.producer.demo_feeds import KEYS, SCHEMA

DAY = date(2026, 3, 1)
SMALL = 400
SEED = 7


def rows(table: pa.Table) -> dict[tuple[object, ...], int]:
    """Key -> value."""
    return {tuple(row[key] for key in KEYS): row["attr_value"] for row in table.to_pylist()}


def test_realistic_snapshot_has_thirteen_dates_and_a_hundred_thousand_rows() -> None:
    table = realistic_snapshots.first(DAY, 1, SEED)
    dates = pc.unique(table["date"]).to_pylist()
    assert sorted(dates) == [DAY - timedelta(days=back) for back in reversed(range(13))]
    assert table.num_rows >= 100_000
    assert table.schema == SCHEMA


def test_same_arguments_give_the_same_rows() -> None:
    first = realistic_snapshots.first(DAY, 1, SEED, SMALL)
    assert first.equals(realistic_snapshots.first(DAY, 1, SEED, SMALL))
    assert realistic_snapshots.following(first, DAY, 2, SEED)[0].equals(
        realistic_snapshots.following(first, DAY, 2, SEED)[0]
    )


def test_another_seed_gives_other_rows() -> None:
    assert not realistic_snapshots.first(DAY, 1, SEED, SMALL).equals(realistic_snapshots.first(DAY, 1, SEED + 1, SMALL))


def test_keys_are_unique_and_rows_carry_the_snapshots_id() -> None:
    table, _ = realistic_snapshots.following(realistic_snapshots.first(DAY, 1, SEED, SMALL), DAY, 2, SEED)
    assert len(rows(table)) == table.num_rows
    assert pc.unique(table["update_id"]).to_pylist() == [2]


def test_next_snapshot_differs_in_a_thousandth_in_all_three_kinds() -> None:
    first = realistic_snapshots.first(DAY, 1, SEED)
    table, said = realistic_snapshots.following(first, DAY, 2, SEED)
    before, after = rows(first), rows(table)
    changed = sum(before[key] != value for key, value in after.items() if key in before)
    assert (changed, len(after.keys() - before.keys()), len(before.keys() - after.keys())) == (52, 26, 26)
    assert (said.changed, said.new, said.missing) == (52, 26, 26)


@pytest.mark.parametrize("snapshot_id", [20260301120000, 2**63 - 1])
def test_a_great_snapshot_id_gets_new_rows(snapshot_id: int) -> None:
    first = realistic_snapshots.first(DAY, 1, SEED)
    table, said = realistic_snapshots.following(first, DAY, snapshot_id, SEED)
    assert len(rows(table).keys() - rows(first).keys()) == said.new == 26


def test_a_snapshot_whose_rows_have_all_expired_is_followed_by_the_rows_of_the_day() -> None:
    first = realistic_snapshots.first(DAY, 1, SEED, SMALL)
    table, said = realistic_snapshots.following(first, DAY + timedelta(days=800), 2, SEED, SMALL)
    assert (table.num_rows, said.new, said.changed, said.missing) == (SMALL, SMALL, 0, 0)


def test_key_that_went_missing_does_not_come_back_as_a_new_one() -> None:
    tables = [realistic_snapshots.first(DAY, 1, SEED, SMALL)]
    for snapshot_id in range(2, 6):
        tables.append(realistic_snapshots.following(tables[-1], DAY, snapshot_id, SEED)[0])
    seen: set[tuple[object, ...]] = set()
    previous: set[tuple[object, ...]] = set()
    for table in tables:
        keys = set(rows(table))
        assert not (keys - previous) & seen
        seen, previous = seen | keys, keys


def test_next_snapshot_on_a_later_day_adds_that_day_and_keeps_the_others() -> None:
    first = realistic_snapshots.first(DAY, 1, SEED, SMALL)
    table, _ = realistic_snapshots.following(first, DAY + timedelta(days=3), 2, SEED, SMALL)
    added = set(pc.unique(table["date"]).to_pylist()) - set(pc.unique(first["date"]).to_pylist())
    assert added == {DAY + timedelta(days=3)}
    assert table.filter(pc.equal(table["date"], pa.scalar(DAY + timedelta(days=3)))).num_rows == SMALL


@pytest.mark.parametrize(("days", "dates_left"), [(717, 14), (718, 13)])
def test_dates_past_retention_leave_the_window(days: int, dates_left: int) -> None:
    first = realistic_snapshots.first(DAY, 1, SEED, SMALL)
    table, _ = realistic_snapshots.following(first, DAY + timedelta(days=days), 2, SEED, SMALL)
    assert len(pc.unique(table["date"])) == dates_left
