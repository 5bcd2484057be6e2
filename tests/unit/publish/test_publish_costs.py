"""The ledger's cost of a publish, and of what it is measured against."""

from __future__ import annotations

import pytest

from dedup_clone.contract.billing import TIB, USD_PER_TIB
from dedup_clone.publish.records.publish_costs import cost_of
from dedup_clone.warehouse.metadata import JobMetadata


def job(kind: str, processed: int, billed: int) -> JobMetadata:
    return JobMetadata(
        "id", kind, True, None, None, None, None, bytes_processed=processed, bytes_billed=billed, slot_ms=5
    )


def test_queries_are_billed_and_load_jobs_are_not() -> None:
    found = cost_of(
        [job("query", TIB, 2 * TIB), job("load", 0, 0), job("query", TIB, TIB)],
        metadata_bytes_billed=TIB,
        table_bytes=8 * TIB,
    )
    assert (found.query_bytes_billed, found.table_bytes_read, found.slot_ms) == (4 * TIB, 2 * TIB, 15)
    assert found.query_usd == pytest.approx(4 * USD_PER_TIB)


def test_alternatives_are_charged_for_the_table_as_often_as_they_touch_it() -> None:
    """QUALIFY reads target and snapshot; MERGE is charged once more for the partitions that it updates."""
    found = cost_of([], metadata_bytes_billed=0, table_bytes=TIB)
    assert found.qualify_usd == pytest.approx(2 * USD_PER_TIB)
    assert found.merge_usd == pytest.approx(3 * USD_PER_TIB)
