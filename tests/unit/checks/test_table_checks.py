"""Schema, layout, lineage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.checks import table_checks as checks
from dedup_clone.checks.check_result import Level
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.warehouse.metadata import StreamingBuffer, TableMetadata
from tests.unit.checks.builders import COLUMNS, NOW, TABLE, table


@pytest.mark.parametrize(
    ("columns", "level"),
    [
        (COLUMNS, Level.PASS),
        (COLUMNS[::-1], Level.FAIL),
        (COLUMNS[:-1], Level.FAIL),
        ((*COLUMNS[:-1], Column("update_id", "STRING")), Level.FAIL),
    ],
)
def test_staging_has_the_declared_columns(columns: tuple[Column, ...], level: Level) -> None:
    assert checks.check_staging_schema(table(columns=columns), TABLE).level is level


def test_the_evidence_of_a_schema_shows_nested_columns() -> None:
    fields = (Column("city", "STRING"), Column("codes", "INT64", ColumnMode.REPEATED))
    declared = replace(TABLE, columns=(*COLUMNS, Column("store", "STRUCT", fields=fields)))
    staging = table(columns=(*COLUMNS, Column("store", "STRUCT", ColumnMode.REQUIRED, fields[:1])))
    result = checks.check_staging_schema(staging, declared)
    assert result.level is Level.FAIL
    assert result.found.endswith("update_id INT64, store STRUCT<city STRING> REQUIRED")
    assert result.expected.endswith("update_id INT64, store STRUCT<city STRING, codes INT64 REPEATED>")


@pytest.mark.parametrize(
    ("target", "level"),
    [
        (None, Level.PASS),
        (table("f"), Level.PASS),
        (table("f", cluster_by=()), Level.FAIL),
        (table("f", partition_column=None), Level.FAIL),
    ],
)
def test_target_has_the_layout_of_staging(target: TableMetadata | None, level: Level) -> None:
    assert checks.check_layout(table(), target, TABLE).level is level


@pytest.mark.parametrize(
    ("target", "parent", "level"),
    [
        pytest.param(None, None, Level.PASS, id="first publish"),
        pytest.param(None, 1, Level.FAIL, id="target was dropped"),
        pytest.param(table("f"), None, Level.FAIL, id="a table of that name is not ours"),
        pytest.param(table("f", labels={"dedup_clone_generation": "1"}), 1, Level.PASS, id="the parent's"),
        pytest.param(table("f", labels={"dedup_clone_generation": "2"}), 1, Level.PASS, id="swapped already"),
        pytest.param(table("f", labels={"dedup_clone_generation": "3"}), 1, Level.FAIL, id="somebody else's"),
        pytest.param(table("f", labels={}), 1, Level.FAIL, id="labels removed by hand"),
    ],
)
def test_only_the_parents_target_is_replaced(target: TableMetadata | None, parent: int | None, level: Level) -> None:
    assert checks.check_target_is_parent(target, parent, 2).level is level


def test_target_is_a_clone_of_staging_at_the_checked_time() -> None:
    good = table("f", clone_of="f_staging", clone_time=NOW)
    assert checks.check_target_is_clone(good, "f_staging", NOW).level is Level.PASS
    assert checks.check_target_is_clone(good, "f_staging", NOW - timedelta(seconds=1)).level is Level.FAIL
    assert checks.check_target_is_clone(table("f"), "f_staging", NOW).level is Level.FAIL


def test_the_evidence_says_what_an_unmarked_table_is() -> None:
    assert checks.check_target_is_parent(table("f"), 1, 2).found == "no label with a generation"
    assert checks.check_target_is_clone(table("f"), "f_staging", NOW).found == "no clone"


def test_clone_times_are_compared_in_milliseconds() -> None:
    """Source: table-snapshots-metadata: times are shown in milliseconds; former releases recorded microseconds."""
    shown, recorded = NOW.replace(microsecond=123_000), NOW.replace(microsecond=123_456)
    clone = table("f", clone_of="f_staging", clone_time=shown)
    assert checks.check_target_is_clone(clone, "f_staging", recorded).level is Level.PASS
    assert checks.check_target_is_clone(clone, "f_staging", recorded + timedelta(milliseconds=1)).level is Level.FAIL


def test_the_evidence_of_a_layout_says_which_table_has_which() -> None:
    result = checks.check_layout(table(), table("f", cluster_by=(), partition_column=None), TABLE)
    of_staging = f"f_staging: {result.expected}"
    assert result.found == f"{of_staging}; f: partitioned by nothing, clustered by nothing"
    assert result.expected == "partitioned by date, clustered by product_id"


def test_the_evidence_of_labels_says_which_are_absent() -> None:
    result = checks.check_target_labels(table(labels={"dedup_clone_generation": "2"}), 2, "abc")
    assert result.found == "dedup_clone_generation 2, dedup_clone_manifest absent"
    assert result.expected == "dedup_clone_generation 2, dedup_clone_manifest abc"


def test_labels_name_generation_and_manifest() -> None:
    labels = {"dedup_clone_generation": "2", "dedup_clone_manifest": "abc"}
    assert checks.check_target_labels(table(labels=labels), 2, "abc").level is Level.PASS
    assert checks.check_target_labels(table(labels=labels), 3, "abc").level is Level.FAIL


def test_tables_that_bigquery_would_delete_fail() -> None:
    result = checks.check_table_expiration([table(), table("f", expires_at=NOW)])
    assert (result.level, result.found) == (Level.FAIL, f"f: expires {NOW:%Y-%m-%d %H:%M}")
    assert "--default_table_expiration=0" in result.next_step
    assert checks.check_table_expiration([table()]).level is Level.PASS


@pytest.mark.parametrize("buffered", ["f_staging", "f"])
def test_rows_in_a_streaming_buffer_fail(buffered: str) -> None:
    buffer = StreamingBuffer(12, NOW - timedelta(minutes=14, milliseconds=3))
    tables = [table(name, streaming_buffer=buffer if name == buffered else None) for name in ("f_staging", "f")]
    result = checks.check_streaming_buffer(tables, NOW)
    assert result.level is Level.FAIL
    assert result.found == f"{buffered}: about 12 streamed rows, the oldest 0:14:00 old"


def test_a_streaming_buffer_of_unknown_age_fails_and_none_passes() -> None:
    result = checks.check_streaming_buffer([table(streaming_buffer=StreamingBuffer(1, None))], NOW)
    assert (result.level, result.found) == (Level.FAIL, "f_staging: about 1 streamed rows, of unknown age")
    assert checks.check_streaming_buffer([table(), table("f")], NOW).level is Level.PASS


def test_dependent_views_fail() -> None:
    assert checks.check_materialized_views(["mv"]).level is Level.FAIL
    assert checks.check_materialized_views([]).level is Level.PASS
