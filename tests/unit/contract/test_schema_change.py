"""Column changes that a publish makes (BigQuery's page "Modifying table schemas"), and those that it refuses."""

from __future__ import annotations

import pytest

from dedup_clone.contract.schema_change import added_columns, refused_changes
from dedup_clone.contract.table import Column, ColumnMode

NUMBER, CITY = Column("number", "INT64"), Column("city", "STRING")
STORE = Column("store", "STRUCT", fields=(CITY,))
BEFORE = (NUMBER, STORE)
AREA = Column("area", "FLOAT64")
WIDER_STORE = Column("store", "STRUCT", fields=(CITY, AREA))
TAGS = Column("tags", "STRING", ColumnMode.REPEATED)


@pytest.mark.parametrize(
    ("after", "added"),
    [
        (BEFORE, []),
        ((*BEFORE, TAGS), ["tags"]),
        ((NUMBER, WIDER_STORE, AREA), ["store.area", "area"]),
    ],
)
def test_columns_added_behind_the_others_are_a_change_that_a_publish_makes(
    after: tuple[Column, ...], added: list[str]
) -> None:
    assert refused_changes(BEFORE, after) == []
    assert added_columns(BEFORE, after) == added


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ((NUMBER,), "column [store] is no longer declared"),
        ((Column("number", "NUMERIC"), STORE), "column [number] is [NUMERIC], it was [INT64]"),
        ((Column("number", "INT64", ColumnMode.REPEATED), STORE), "column [number] is [REPEATED], it was [NULLABLE]"),
        ((NUMBER, Column("store", "STRUCT", fields=(AREA,))), "column [store.city] is no longer declared"),
        ((*BEFORE, Column("must", "STRING", ColumnMode.REQUIRED)), "new column [must] is REQUIRED"),
        ((TAGS, *BEFORE), "expected first [number, store]"),
        ((STORE, NUMBER), "expected first [number, store]"),
        ((NUMBER, Column("store", "STRUCT", fields=(AREA, CITY))), "expected first [store.city]"),
    ],
)
def test_every_other_change_is_refused_with_its_reason(after: tuple[Column, ...], reason: str) -> None:
    assert reason in "; ".join(refused_changes(BEFORE, after))
