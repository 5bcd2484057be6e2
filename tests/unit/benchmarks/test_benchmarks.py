"""The benchmarks' generator expects the oracle's table."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from benchmarks.dataset import COLUMNS, DatasetShape, Variant
from benchmarks.generated_rows import OLDEST_ID, PARENT_ID, GeneratedRows, make_block, snapshot_ids
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.table_contracts import PRODUCTS, oracle_table


def rows_of(day: date, rows: GeneratedRows) -> list[dict[str, Any]]:
    columns = (rows.keys.product, rows.keys.store, rows.keys.attribute, rows.values, rows.ids)
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(COLUMNS, (day, *row), strict=True)) for row in values]


@pytest.mark.parametrize("variant", Variant)
def test_the_expected_rows_and_counts_equal_those_of_the_oracle(variant: Variant) -> None:
    shape = DatasetShape(6_500, 13, variant, differing=0.05, survivor_share=0.02)
    for number in (0, 12):
        day, block = shape.days()[number], make_block(shape, number, 0)
        arriving = list(zip(snapshot_ids(shape), block.arriving, strict=True))
        state = OracleState(oracle_table(PRODUCTS))
        for deliveries in ([(OLDEST_ID, block.oldest)], [(PARENT_ID, block.parent)], arriving):
            applied = [OracleDelivery(delivery, rows_of(day, rows)) for delivery, rows in deliveries]
            state = state.apply(applied, date(2020, 1, 1))
        assert state.table_rows() == comparable(oracle_table(PRODUCTS), rows_of(day, block.expected))
        expected, counts = state.counts[day], block.counts
        found = (counts.new, counts.changed, counts.survivors, counts.duplicates)
        assert found == (expected.new_keys, expected.changed, expected.survivors, expected.ties)
