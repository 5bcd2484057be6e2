"""Which of the rows with one key stays, against the oracle's order of values."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dedup_spark.adopt import ties
from dedup_spark.adopt.picked import Picked
from dedup_spark.column_types import arrow_schema
from tests.oracle import OracleDelivery, OracleState
from tests.spark.random_rows import FIRST_DAY, random_rows
from tests.spark.tables import NESTED, oracle_table
from tests.thoroughness import SEEDS


def picked(ids: list[int]) -> Picked:
    """As far as ties are concerned."""
    numbers = np.arange(len(ids))
    return Picked((), numbers.astype(np.int32), numbers, np.array(ids, np.int64), np.zeros(0, np.uint64), None)


@pytest.mark.parametrize("at_a_time", [3, 4096])
@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_of_each_key_the_row_with_the_greatest_values_stays(seed: int, at_a_time: int) -> None:
    rows = random_rows(Random(seed), snapshot_id=1, days=1, missing_days=[])
    table, columns = oracle_table(NESTED), pa.Table.from_pylist(rows, schema=arrow_schema(NESTED.columns))
    keys = sorted({table.key(row) for row in rows})
    words = np.array([keys.index(table.key(row)) for row in rows], dtype=np.uint64)
    values = tuple(columns[column.name] for column in NESTED.value_columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ties, "_ROWS_AT_A_TIME", at_a_time)
        lost = set(ties.losers(words, picked([1] * len(rows)), values).tolist())
    staying = [row for number, row in enumerate(rows) if number not in lost]
    expected = OracleState(table).apply([OracleDelivery(1, rows)], FIRST_DAY).table_rows()
    assert OracleState(table, rows={table.key(row): row for row in staying}).table_rows() == expected
    assert len(staying) == len(keys)


def test_of_rows_with_update_ids_of_their_own_the_highest_counts_before_any_value() -> None:
    values = (pa.chunked_array([[9, 1, 2, None]]),)
    lost = ties.losers(np.array([5, 5, 5, 5], np.uint64), picked([1, 2, 2, 1]), values)
    assert sorted(lost.tolist()) == [0, 1, 3]
