"""Which of the rows with one key is retained, against the oracle's order of values."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison import duplicate_keys
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY, random_rows
from tests.thoroughness import SEEDS


@pytest.mark.parametrize("at_a_time", [3, 4096])
@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_of_each_key_the_row_with_the_greatest_values_is_retained(seed: int, at_a_time: int) -> None:
    rows = random_rows(Random(seed), snapshot_id=1, days=1, missing_days=[])
    table, columns = oracle_table(NESTED), pa.Table.from_pylist(rows, schema=arrow_schema(NESTED.columns))
    keys = sorted({table.key(row) for row in rows})
    packed = np.array([keys.index(table.key(row)) for row in rows], dtype=np.uint64)
    values = tuple(columns[column.name] for column in NESTED.value_columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicate_keys, "_ROWS_AT_A_TIME", at_a_time)
        surplus = set(duplicate_keys.lower_ranked(packed, np.ones(len(rows), np.int64), values).tolist())
    retained = [row for number, row in enumerate(rows) if number not in surplus]
    expected = OracleState(table).apply([OracleDelivery(1, rows)], FIRST_DAY).table_rows()
    assert OracleState(table, rows={table.key(row): row for row in retained}).table_rows() == expected
    assert len(retained) == len(keys)


def test_of_rows_with_update_ids_of_their_own_the_highest_counts_before_any_value() -> None:
    values = (pa.chunked_array([[9, 1, 2, None]]),)
    surplus = duplicate_keys.lower_ranked(np.array([5, 5, 5, 5], np.uint64), np.array([1, 2, 2, 1]), values)
    assert sorted(surplus.tolist()) == [0, 1, 3]
