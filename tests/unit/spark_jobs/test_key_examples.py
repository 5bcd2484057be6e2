"""Examples of keys, as text: the values that a reader finds in the table."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dedup_clone.contract.table import Column, TableContract
from dedup_spark.comparison.key_examples import key_texts

NUMBERED = TableContract(
    columns=(Column("date", "DATE"), Column("number", "NUMERIC"), Column("update_id", "INT64")),
    partition_column="date",
    snapshot_id_column="update_id",
    keys=("date", "number"),
    cluster_by=(),
    retention_days=730,
)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
        ("-99999999999999999999999999999.999999999", "-99999999999999999999999999999.999999999"),
        ("1200.500000000", "1200.5"),
        ("100.000000000", "100"),
        ("0.000000000", "0"),
    ],
)
def test_number_is_shown_with_all_of_its_digits_and_no_other(stored: str, text: str) -> None:
    assert key_texts(NUMBERED, [[Decimal(stored)]]) == [f"number={text}"]
