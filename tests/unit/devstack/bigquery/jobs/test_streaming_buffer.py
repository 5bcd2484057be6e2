"""Streamed rows: queries see them at once; everything else, once they have left the streaming buffer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from devstack.bigquery.clock import MICROSECONDS
from devstack.bigquery.jobs import dml_runner
from devstack.bigquery.rest.table_resource import table_resource
from devstack.bigquery.storage import streaming_buffer
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import BufferedRows, TableId, TableVersion
from devstack.bigquery.storage.segment_store import SegmentBatch
from devstack.bigquery.storage.streaming_buffer import BUFFER_US, stream_rows
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

TABLE = TableId("local-dev", "d", "t")
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d")
    warehouse.statistics("CREATE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    warehouse.statistics(f"INSERT d.t VALUES (DATE '{YESTERDAY}', 1)")
    return warehouse


def stream(warehouse: Warehouse, ids: Sequence[int], table: TableId = TABLE) -> None:
    def make(version: TableVersion, commit_us: int, batch: SegmentBatch) -> list[BufferedRows]:
        rows = [{"day": TODAY, "id": number} for number in ids]
        segment = batch.write(pa.Table.from_pylist(rows, schema=arrow_schema(version.settings.schema)))
        return [BufferedRows(segment, commit_us)]

    stream_rows(warehouse.stand_in.catalog, table, make)


def ids(warehouse: Warehouse, table: str = "d.t", where: str = "TRUE") -> list[Any]:
    record = warehouse.run(f"SELECT id FROM {table} WHERE {where} ORDER BY id")
    assert record.error is None, record.error
    found = record.configuration["query"]["destinationTable"]
    return [value for (value,) in warehouse.rows(f"{found['datasetId']}.{found['tableId']}")]


def resource(warehouse: Warehouse) -> dict[str, Any]:
    return table_resource(TABLE, warehouse.stand_in.catalog.get(TABLE), "US", "")


def drain(warehouse: Warehouse, after_us: int = BUFFER_US) -> None:
    warehouse.stand_in.clock.advance(after_us)
    warehouse.stand_in.garbage_collector.sweep()


def partitions(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    warehouse.statistics(
        "CREATE OR REPLACE TABLE d.p AS SELECT partition_id, total_rows FROM d.INFORMATION_SCHEMA.PARTITIONS "
        "WHERE table_name = 't' ORDER BY partition_id"
    )
    return warehouse.rows("d.p")


def test_streamed_rows_are_in_queries_and_not_in_clones_sizes_and_lists(warehouse: Warehouse) -> None:
    stream(warehouse, [2, 3])
    assert ids(warehouse) == [1, 2, 3]
    warehouse.statistics("CREATE TABLE d.c CLONE d.t")
    assert ids(warehouse, "d.c") == [1]
    assert warehouse.rows("d.t") == [(YESTERDAY, 1)]
    found = resource(warehouse)
    assert (found["numRows"], found["numBytes"], found["numPartitions"]) == ("1", "16", "1")
    oldest_ms = warehouse.stand_in.catalog.get(TABLE).buffer[0].received_us // 1000
    assert found["streamingBuffer"] == {
        "estimatedRows": "2",
        "estimatedBytes": "32",
        "oldestEntryTime": str(oldest_ms),
    }
    assert partitions(warehouse) == [(f"{YESTERDAY:%Y%m%d}", 1), ("__UNPARTITIONED__", 2)]


def test_streamed_rows_and_rows_of_days_without_a_partition_are_in_one_row_of_the_view(warehouse: Warehouse) -> None:
    """Source: "PARTITIONS view": a second row of __UNPARTITIONED__ is one of another storage tier."""
    warehouse.statistics("INSERT d.t VALUES (DATE '1959-12-31', 2)")
    stream(warehouse, [3, 4])
    assert partitions(warehouse) == [(f"{YESTERDAY:%Y%m%d}", 1), ("__UNPARTITIONED__", 3)]


def test_rows_leave_the_buffer_for_their_partitions_after_some_minutes(warehouse: Warehouse) -> None:
    stream(warehouse, [2])
    drain(warehouse, BUFFER_US - 60 * MICROSECONDS)
    stream(warehouse, [3])
    drain(warehouse, 60 * MICROSECONDS)
    assert resource(warehouse)["streamingBuffer"]["estimatedRows"] == "1"
    drain(warehouse)
    found = resource(warehouse)
    assert found["numRows"] == "3"
    assert "streamingBuffer" not in found
    assert partitions(warehouse) == [(f"{YESTERDAY:%Y%m%d}", 1), (f"{TODAY:%Y%m%d}", 2)]
    warehouse.statistics("CREATE TABLE d.c CLONE d.t")
    assert ids(warehouse, "d.c") == [1, 2, 3]


def test_rows_leave_a_buffer_of_many_requests_at_once(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_buffer, "MAXIMUM_REQUESTS", 2)
    stream(warehouse, [2])
    stream(warehouse, [3])
    drain(warehouse, 0)
    assert resource(warehouse)["numRows"] == "1"
    stream(warehouse, [4])
    drain(warehouse, 0)
    found = resource(warehouse)
    assert (found["numRows"], "streamingBuffer" in found) == ("4", False)


def test_buffer_survives_a_restart(warehouse: Warehouse, tmp_path: Path) -> None:
    stream(warehouse, [2])
    warehouse.stand_in.garbage_collector.sweep(removes_segments_always=True)
    assert ids(Warehouse(tmp_path)) == [1, 2]


def test_the_past_has_the_rows_that_had_been_streamed_by_then(warehouse: Warehouse) -> None:
    stream(warehouse, [2])
    moment_us = warehouse.stand_in.clock.now_us()
    drain(warehouse)
    warehouse.statistics("DELETE FROM d.t WHERE TRUE")
    past = f"d.t FOR SYSTEM_TIME AS OF TIMESTAMP_MICROS({moment_us})"
    warehouse.statistics(f"CREATE TABLE d.c CLONE {past}")
    assert (ids(warehouse, past), ids(warehouse, "d.c")) == ([1, 2], [1])


def test_a_query_of_buffered_rows_bills_only_the_others(warehouse: Warehouse) -> None:
    stream(warehouse, [2])
    assert warehouse.statistics("SELECT id FROM d.t")["totalBytesProcessed"] == "8"
    drain(warehouse)
    assert warehouse.statistics("SELECT id FROM d.t")["totalBytesProcessed"] == "16"


def test_dml_changes_rows_that_came_by_the_write_api_while_they_are_buffered(warehouse: Warehouse) -> None:
    stream(warehouse, [2, 3, 4])
    warehouse.statistics("UPDATE d.t SET id = 20 WHERE id = 2")
    warehouse.statistics("DELETE FROM d.t WHERE id = 3")
    assert ids(warehouse) == [1, 4, 20]
    assert resource(warehouse)["streamingBuffer"]["estimatedRows"] == "1"
    warehouse.statistics(
        "MERGE d.t USING (SELECT 4 AS key) ON id = key WHEN MATCHED THEN UPDATE SET id = 40 "
        f"WHEN NOT MATCHED THEN INSERT (day, id) VALUES (DATE '{TODAY}', 5)"
    )
    assert ids(warehouse) == [1, 20, 40]
    assert "streamingBuffer" not in resource(warehouse)


def test_a_table_with_buffered_rows_is_not_truncated(warehouse: Warehouse) -> None:
    stream(warehouse, [2])
    error = warehouse.run("TRUNCATE TABLE d.t").error
    assert error is not None
    assert "streaming buffer" in error["message"]
    drain(warehouse)
    warehouse.statistics("TRUNCATE TABLE d.t")
    assert ids(warehouse) == []


@pytest.mark.parametrize("when", ["streamed", "flushed"])
def test_rows_that_are_streamed_or_flushed_while_a_statement_runs_are_kept(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    stream(warehouse, [2, 3])
    original, meanwhile = dml_runner.write_partitions, [True]

    def interrupted(*arguments: Any) -> Any:
        if meanwhile:
            meanwhile.clear()
            drain(warehouse) if when == "flushed" else stream(warehouse, [4])
        return original(*arguments)

    monkeypatch.setattr(dml_runner, "write_partitions", interrupted)
    warehouse.statistics("UPDATE d.t SET id = id + 10 WHERE id < 3")
    assert ids(warehouse) == ([3, 11, 12] if when == "flushed" else [3, 4, 11, 12])


def test_whole_replacements_end_the_buffer_and_other_changes_keep_it(warehouse: Warehouse) -> None:
    stream(warehouse, [2])
    warehouse.statistics(f"INSERT d.t VALUES (DATE '{TODAY}', 3)")
    warehouse.statistics("ALTER TABLE d.t SET OPTIONS (description = 'x')")
    assert ids(warehouse) == [1, 2, 3]
    warehouse.statistics("CREATE TABLE d.base AS SELECT * FROM d.t WHERE FALSE")
    warehouse.statistics("CREATE OR REPLACE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    assert ids(warehouse) == []
    stream(warehouse, [4])
    warehouse.statistics("DROP TABLE d.t")
    warehouse.statistics("CREATE TABLE d.t (day DATE, id INT64) PARTITION BY day")
    assert ids(warehouse) == []


def test_table_dropped_during_a_flush_leaves_other_tables_to_be_flushed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, flush = warehouse.stand_in.catalog, streaming_buffer._flush
    other = TableId("local-dev", "d", "u")
    warehouse.statistics("CREATE TABLE d.u (day DATE, id INT64) PARTITION BY day")
    stream(warehouse, [2])
    stream(warehouse, [3], other)

    def drop_first(catalog_: Any, table: TableId) -> None:
        if table == TABLE:
            catalog.drop(TABLE)
        flush(catalog_, table)

    monkeypatch.setattr(streaming_buffer, "_flush", drop_first)
    drain(warehouse)
    assert warehouse.rows("d.u") == [(TODAY, 3)]
