"""The ledger's cost of a publish, and of what it is measured against."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dedup_clone.contract.billing import GIB, MIN_BYTES_BILLED, TIB, USD_PER_TIB
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.records.publish_costs import MergeInput, cost_of, merge_input_of_rows
from dedup_clone.state.streamed_changes import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata
from testkit.table_contracts import PRODUCTS


def job(kind: str, processed: int, billed: int) -> JobMetadata:
    return JobMetadata(
        "id", kind, True, None, None, None, None, bytes_processed=processed, bytes_billed=billed, slot_ms=5
    )


def test_queries_are_billed_and_load_jobs_are_not() -> None:
    found = cost_of(
        [job("query", TIB, 2 * TIB), job("load", 0, 0), job("query", TIB, TIB)],
        metadata_bytes_billed=TIB,
        merged=None,
    )
    assert (found.query_bytes_billed, found.table_bytes_read, found.slot_ms) == (4 * TIB, 2 * TIB, 15)
    assert found.query_usd == pytest.approx(4 * USD_PER_TIB)


def test_streamed_rows_are_charged_and_the_whole_table_is_read_to_apply_them() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    streamed = StreamedChanges(10, 4 * GIB, 1, moment, moment, moment, bytes_billed=MIN_BYTES_BILLED)
    found = cost_of([], metadata_bytes_billed=0, merged=None, streamed=streamed, table_bytes=3 * TIB)
    assert (found.query_bytes_billed, found.streamed_bytes, found.apply_bytes) == (MIN_BYTES_BILLED, 4 * GIB, 3 * TIB)
    assert found.stream_usd == pytest.approx(4 * 0.025 + 3 * USD_PER_TIB)
    assert found.total_usd == pytest.approx(found.query_usd + found.stream_usd)


def test_alternatives_are_charged_for_the_table_as_often_as_they_touch_it() -> None:
    """QUALIFY reads target and snapshot; MERGE reads the keys and is charged for the partitions that it updates."""
    merged = merge_input_of_rows(PRODUCTS, 48, delivered=TIB / 48, existing=TIB / 48)
    found = cost_of([], metadata_bytes_billed=0, merged=merged)
    assert found.qualify_usd == pytest.approx(2 * USD_PER_TIB)
    assert found.merge_usd == pytest.approx((2 + 5 / 6) * USD_PER_TIB)


def test_keys_of_a_wide_table_are_a_small_share_of_it() -> None:
    columns = (Column("day", "DATE"), Column("id", "INT64"), Column("version", "INT64"), Column("text", "STRING"))
    wide = TableContract(columns, "day", "version", ("day", "id"), (), 730)
    found = merge_input_of_rows(wide, 2400, delivered=0, existing=1000)
    assert found.existing_keys == pytest.approx(24 * 1000)


def test_alternatives_have_minimum_charges_too() -> None:
    """A query that references two tables is billed for at least 10 MB of each."""
    tiny = MergeInput(delivered=100, existing=100, existing_keys=80)
    assert tiny.merge_bytes_billed == tiny.qualify_bytes_billed == 2 * MIN_BYTES_BILLED


def test_nothing_is_compared_with_a_rollback() -> None:
    found = cost_of([], metadata_bytes_billed=MIN_BYTES_BILLED, merged=None)
    assert (found.merge_usd, found.qualify_usd) == (None, None)
