from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from devstack.demo import before_and_after
from devstack.demo.before_and_after import RowChange
from devstack.producer import worked_example
from devstack.producer.demo_feeds import KEYS, SCHEMA

DAY = date(2026, 3, 1)


def publish(before: pa.Table, snapshot: pa.Table) -> pa.Table:
    """The snapshot's rows, and those that only the table has."""
    present = {row.key for row in before_and_after.rows(snapshot)}
    rows = [row for row in before.to_pylist() if tuple(row[key] for key in KEYS) not in present]
    return pa.concat_tables([pa.Table.from_pylist(rows, schema=SCHEMA), snapshot])


def counts(before: pa.Table, after: pa.Table, snapshot_id: int) -> dict[RowChange, int]:
    marked = before_and_after.compare_rows(before, after, snapshot_id)
    return {kind: sum(row.change == kind for row in marked) for kind in RowChange}


def test_the_two_snapshots_show_each_kind() -> None:
    first = worked_example.before(DAY, 1, None)
    second = worked_example.after(DAY, 2, first)
    assert counts(first, publish(first, second), 2) == {
        RowChange.CHANGED: 1,
        RowChange.NEW: 1,
        RowChange.SURVIVOR: 1,
        RowChange.EQUAL: 3,
    }


def test_product_301865_starts_with_the_published_value() -> None:
    first = worked_example.before(DAY, 1, None)
    wanted = {"product_id": 301865, "store_id": 2072, "attribute_id": 1, "attr_value": 20}
    assert any(wanted.items() <= row.items() for row in first.to_pylist())


def test_a_second_round_still_has_exactly_one_new_key() -> None:
    first = worked_example.before(DAY, 1, None)
    table = publish(first, worked_example.after(DAY, 2, first))
    third = worked_example.before(DAY, 3, worked_example.after(DAY, 2, first))
    table = publish(table, third)
    fourth = worked_example.after(DAY, 4, third)
    assert counts(table, publish(table, fourth), 4)[RowChange.NEW] == 1


def test_dates_of_an_earlier_day_are_carried_over() -> None:
    first = worked_example.before(DAY, 1, None)
    later = worked_example.before(DAY + timedelta(days=5), 2, first)
    dates = set(pc.unique(later["date"]).to_pylist())
    assert dates == {DAY + timedelta(days=offset) for offset in (-1, 0, 4, 5)}
    assert pc.unique(later["update_id"]).to_pylist() == [2]
