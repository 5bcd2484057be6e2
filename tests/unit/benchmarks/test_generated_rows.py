"""The generator's expected table equals the table that the oracle computes from the generated rows."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.generated_rows import (
    LATE_ID,
    NEXT_ID,
    OLDEST_ID,
    PARENT_ID,
    Block,
    GeneratedRows,
    block_count,
    make_block,
    snapshot_ids,
)
from benchmarks.input_files import COLUMNS
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.table_contracts import PRODUCTS, oracle_table

ROWS, DATES = 6_500, 13


def rows_of(shape: DatasetShape, date_number: int, rows: GeneratedRows) -> list[dict[str, Any]]:
    day = shape.days()[date_number]
    columns = (rows.keys.product, rows.keys.store, rows.keys.attribute, rows.values, rows.ids)
    values = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(COLUMNS, (day, *row), strict=True)) for row in values]


def key_set(shape: DatasetShape, date_number: int, rows: GeneratedRows) -> set[tuple[Any, ...]]:
    return {tuple(row.values())[:-2] for row in rows_of(shape, date_number, rows)}


def only_block(shape: DatasetShape, date_number: int) -> Block:
    assert block_count(shape, date_number) == 1
    return make_block(shape, date_number, 0)


@pytest.mark.parametrize("variant", Variant)
def test_the_expected_rows_and_counts_equal_those_of_the_oracle(variant: Variant) -> None:
    shape = DatasetShape(ROWS, DATES, variant, differing=0.05, survivor_share=0.02)
    for number in (0, DATES - 1):
        block = only_block(shape, number)
        arriving = list(zip(snapshot_ids(shape), block.arriving, strict=True))
        state = OracleState(oracle_table(PRODUCTS))
        for deliveries in ([(OLDEST_ID, block.oldest)], [(PARENT_ID, block.parent)], arriving):
            applied = [OracleDelivery(delivery, rows_of(shape, number, rows)) for delivery, rows in deliveries]
            state = state.apply(applied, date(2020, 1, 1))
        assert state.table_rows() == comparable(oracle_table(PRODUCTS), rows_of(shape, number, block.expected))
        expected, counts = state.counts[shape.days()[number]], block.counts
        found = (counts.new, counts.changed, counts.survivors, counts.duplicates)
        assert found == (expected.new_keys, expected.changed, expected.survivors, expected.ties)
        parent_keys, newest_keys = (key_set(shape, number, rows) for rows in (block.parent, block.arriving[-1]))
        assert counts.missing == len(parent_keys - newest_keys)


def test_the_same_shape_gives_the_same_rows() -> None:
    shape = DatasetShape(ROWS, DATES)
    first, second = only_block(shape, 3), only_block(shape, 3)
    assert rows_of(shape, 3, first.arriving[0]) == rows_of(shape, 3, second.arriving[0])
    other_seed = only_block(DatasetShape(ROWS, DATES, seed=8), 3)
    assert rows_of(shape, 3, first.arriving[0]) != rows_of(shape, 3, other_seed.arriving[0])


def test_snapshots_without_differences_have_equal_keys_and_values() -> None:
    block = only_block(DatasetShape(ROWS, DATES, Variant.SORTED, differing=0.0), 0)
    assert block.parent.keys.product.tolist() == block.arriving[0].keys.product.tolist()
    assert block.parent.values.tolist() == block.arriving[0].values.tolist()


def test_all_rows_may_differ() -> None:
    shape = DatasetShape(ROWS, DATES, differing=1.0, survivor_share=0.0)
    block = only_block(shape, 0)
    before = {tuple(row.values())[:-1] for row in rows_of(shape, 0, block.parent)}
    arriving = {tuple(row.values())[:-1] for row in rows_of(shape, 0, block.arriving[0])}
    assert not before & arriving


def test_concentrated_differences_are_on_the_newest_date() -> None:
    shape = DatasetShape(ROWS, DATES, Variant.CONCENTRATED)
    assert shape.differing_share_by_date() == [0.0] * (DATES - 1) + [pytest.approx(0.013)]


def test_a_skewed_table_has_most_rows_in_its_newest_date() -> None:
    rows = DatasetShape(ROWS, DATES, Variant.SKEWED).rows_by_date()
    assert rows == sorted(rows)
    assert rows[-1] > 3 * ROWS / DATES


def test_large_dates_are_made_of_blocks_without_a_common_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.generated_rows.BLOCK_ROWS", 1_000)
    shape = DatasetShape(3_500, 1)
    blocks = [make_block(shape, 0, number) for number in range(block_count(shape, 0))]
    products = [set(block.expected.keys.product.tolist()) for block in blocks]
    assert len(blocks) == 4
    assert sum(map(len, products)) == len(set.union(*products))


def test_a_late_snapshot_is_older_than_the_parents_newest_snapshot() -> None:
    assert snapshot_ids(DatasetShape(1, variant=Variant.LATE)) == (LATE_ID,)
    assert LATE_ID < PARENT_ID
    assert snapshot_ids(DatasetShape(1)) == (NEXT_ID,)
    assert NEXT_ID > PARENT_ID


def test_a_correction_has_the_id_of_the_parents_newest_snapshot_and_a_backlog_the_next_ids() -> None:
    assert snapshot_ids(DatasetShape(1, variant=Variant.CORRECTION)) == (PARENT_ID,)
    assert snapshot_ids(DatasetShape(1, variant=Variant.BACKLOG_2)) == (NEXT_ID, NEXT_ID + 1)
