from datetime import date

import pyarrow as pa

from devstack.demo.table_comparison import compare
from devstack.producer.demo_feeds import SCHEMA

DAY = date(2026, 3, 1)


def table(*rows: tuple[int, int, int]) -> pa.Table:
    """Rows given as product, value, snapshot id."""
    plain = [dict(zip(SCHEMA.names, (DAY, product, 1, 1, value, id_), strict=True)) for product, value, id_ in rows]
    return pa.Table.from_pylist(plain, schema=SCHEMA)


def test_same_rows_in_another_order_are_equal() -> None:
    assert compare(table((1, 20, 1), (2, 21, 1)), table((2, 21, 1), (1, 20, 1))).is_equal


def test_empty_tables_are_equal() -> None:
    assert compare(table(), table()).is_equal


def test_wrong_value_is_one_too_many_and_one_too_few() -> None:
    result = compare(table((1, 20, 1)), table((1, 25, 1)))
    assert (result.too_many, result.too_few, result.is_equal) == (1, 1, False)
    assert "attr_value=20" in result.samples[0]
    assert "attr_value=25" in result.samples[1]


def test_wrong_snapshot_id_is_a_difference() -> None:
    assert not compare(table((1, 20, 1)), table((1, 20, 2))).is_equal


def test_repeated_row_is_a_difference() -> None:
    result = compare(table((1, 20, 1), (1, 20, 1)), table((1, 20, 1)))
    assert (result.too_many, result.too_few) == (1, 0)


def test_missing_row_is_a_difference() -> None:
    result = compare(table(), table((1, 20, 1)))
    assert (result.too_many, result.too_few) == (0, 1)
