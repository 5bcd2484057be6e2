from datetime import date

import pyarrow as pa
import pytest

from devstack.demo import before_and_after
from devstack.demo.before_and_after import RowChange
from devstack.producer.demo_feeds import SCHEMA

DAY = date(2026, 3, 1)


def table(*rows: tuple[int, int, int]) -> pa.Table:
    """Rows given as product, value, snapshot id."""
    plain = [dict(zip(SCHEMA.names, (DAY, product, 1, 1, value, id_), strict=True)) for product, value, id_ in rows]
    return pa.Table.from_pylist(plain, schema=SCHEMA)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([(1, 20, 1)], (1, 25, 2), RowChange.CHANGED),
        ([], (1, 25, 2), RowChange.NEW),
        ([(1, 20, 1)], (1, 20, 1), RowChange.SURVIVOR),
        ([(1, 20, 1)], (1, 20, 2), RowChange.EQUAL),
    ],
    ids=lambda value: value if isinstance(value, RowChange) else "",
)
def test_kind_of_a_row(before: list[tuple[int, int, int]], after: tuple[int, int, int], kind: RowChange) -> None:
    assert [row.change for row in before_and_after.compare_rows(table(*before), table(after), 2)] == [kind]


def test_rows_come_in_key_order() -> None:
    assert [row.after.key[1] for row in before_and_after.compare_rows(table(), table((9, 1, 1), (3, 1, 1)), 1)] == [
        3,
        9,
    ]
