"""Versions, time travel, expiration, clones and garbage collection of the table storage."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from devstack.bigquery.bigquery_errors import Invalid, NotFound, QuotaExceeded, RateLimitExceeded, ResourceInUse
from devstack.bigquery.clock import HOUR_US, MICROSECONDS
from devstack.bigquery.sql.ddl_options import TableOptions
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.garbage_collector import GarbageCollector
from devstack.bigquery.storage.model import NULL_PARTITION, RowPolicy, TableSettings
from devstack.bigquery.storage.quotas import QuotaLimits
from devstack.bigquery.storage.table_change import Change
from devstack.bigquery.storage.table_rules import check_settings
from tests.unit.devstack.bigquery.storage.tables import (
    SCHEMA,
    SETTINGS,
    UNLIMITED,
    WAREHOUSE,
    clone,
    numbers,
    open_catalog,
    put,
    rows_of,
    table_id,
)

DAY_MS = 86_400_000
TODAY = datetime.now(UTC).date()


def days_ago(days: int) -> date:
    return TODAY - timedelta(days=days)


def test_table_survives_a_restart(tmp_path: Path) -> None:
    before = put(open_catalog(tmp_path), "t", rows_of([days_ago(1), None], 7))
    catalog = open_catalog(tmp_path)
    assert catalog.get(table_id("t")) == before
    assert sorted(before.partitions) == [f"{days_ago(1):%Y%m%d}", NULL_PARTITION]
    assert numbers(catalog, before) == [7] * 6


def test_a_day_before_the_year_1000_has_a_partition(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "t", rows_of([date(999, 10, 1)], 7), replace(SETTINGS, partition_expiration_ms=4_000_000 * DAY_MS))
    assert sorted(catalog.get(table_id("t")).partitions) == ["09991001"]


def test_a_dataset_of_another_format_is_refused(tmp_path: Path) -> None:
    put(open_catalog(tmp_path), "t", rows_of([None], 7))
    (path,) = (tmp_path / "datasets").glob("*/*")
    path.write_text(path.read_text().replace('"format": 5', '"format": 3'))
    with pytest.raises(ValueError, match=r"Dataset has format \[3\], expected \[5\]"):
        open_catalog(tmp_path)


def test_policies_survive_a_restart(tmp_path: Path) -> None:
    tag = "projects/p/locations/us/taxonomies/1/policyTags/2"
    policies = (RowPolicy("mine", "number = 1", ("user:a@example.com", "allUsers"), 1, 2),)
    schema = (SCHEMA[0], replace(SCHEMA[1], policy_tags=(tag,)))
    settings = replace(SETTINGS, schema=schema, row_policies=policies)
    put(open_catalog(tmp_path), "staging", rows_of([TODAY], 1), settings)
    assert open_catalog(tmp_path).get(table_id("staging")).settings == settings


def test_bytes_count_as_bigquery_counts_them(tmp_path: Path) -> None:
    version = put(open_catalog(tmp_path), "t", rows_of([days_ago(1), None], 7))
    assert version.bytes == 6 * 8 + 3 * 8  # six numbers, three days; NULL is free


def test_time_travel_reads_replaced_rows_but_not_a_dropped_table(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    first = put(catalog, "t", rows_of([TODAY], 1))
    put(catalog, "t", rows_of([TODAY], 2))
    assert numbers(catalog, catalog.at(table_id("t"), first.committed_us)) == [1] * 3
    with pytest.raises(Invalid, match=r"Invalid snapshot time .* Cannot read before"):
        catalog.at(table_id("t"), first.committed_us - 1)
    catalog.drop(table_id("t"))
    with pytest.raises(NotFound, match=r"Not found: Table local-dev:warehouse\.t"):
        catalog.at(table_id("t"), first.committed_us)
    put(catalog, "t", rows_of([TODAY], 3))
    with pytest.raises(Invalid, match="Cannot read before"):
        catalog.at(table_id("t"), first.committed_us)


def test_time_travel_ends_after_seven_days_and_frees_the_segments(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    first = put(catalog, "t", rows_of([TODAY], 1))
    last = put(catalog, "t", rows_of([TODAY], 2))
    catalog.clock.advance(6 * 24 * HOUR_US)
    GarbageCollector(catalog).sweep()
    assert numbers(catalog, catalog.at(table_id("t"), first.committed_us)) == [1] * 3
    catalog.clock.advance(2 * 24 * HOUR_US)
    GarbageCollector(catalog).sweep()
    with pytest.raises(Invalid, match="Cannot read before"):
        catalog.at(table_id("t"), first.committed_us)
    assert catalog.segments.files() == {segment.file for segment in last.segments()}


def test_pinned_version_keeps_its_segments(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "t", rows_of([TODAY], 1))
    with catalog.pinned(table_id("t")) as pinned:
        put(catalog, "t", rows_of([TODAY], 2))
        catalog.clock.advance(8 * 24 * HOUR_US)
        GarbageCollector(catalog).sweep(removes_segments_always=True)
        assert numbers(catalog, pinned) == [1] * 3
    GarbageCollector(catalog).sweep(removes_segments_always=True)
    assert len(catalog.segments.files()) == 1


def test_dropped_table_is_forgotten_after_time_travel(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "t", rows_of([TODAY], 1))
    catalog.drop(table_id("t"))
    GarbageCollector(catalog).sweep()
    assert len(catalog.segments.files()) == 1
    catalog.clock.advance(8 * 24 * HOUR_US)
    GarbageCollector(catalog).sweep()
    assert catalog.segments.files() == set()
    assert open_catalog(tmp_path).histories() == []


def test_expired_partitions_are_gone_at_once_and_deleted_by_the_sweep(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    settings = replace(SETTINGS, partition_expiration_ms=10 * DAY_MS)
    put(catalog, "t", rows_of([days_ago(11), days_ago(9), days_ago(0), None], 1), settings)
    kept = catalog.get(table_id("t"))
    assert sorted(kept.partitions) == [f"{days_ago(9):%Y%m%d}", f"{TODAY:%Y%m%d}", NULL_PARTITION]
    catalog.clock.advance(2 * 24 * HOUR_US)
    assert sorted(catalog.get(table_id("t")).partitions) == [f"{TODAY:%Y%m%d}", NULL_PARTITION]
    GarbageCollector(catalog).sweep()
    latest = catalog.history(table_id("t")).latest()
    assert latest is not None
    assert (latest.change_kind, sorted(latest.partitions)) == ("expire", [f"{TODAY:%Y%m%d}", NULL_PARTITION])


def test_time_travel_does_not_read_an_expired_table_that_was_made_anew_before_a_sweep(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    settings = replace(SETTINGS, expires_us=catalog.clock.now_us() + HOUR_US)
    expired = put(catalog, "t", rows_of([TODAY], 1), settings)
    catalog.clock.advance(2 * HOUR_US)
    put(catalog, "t", rows_of([TODAY], 2))
    with pytest.raises(Invalid, match="Cannot read before"):
        catalog.at(table_id("t"), expired.committed_us)


def test_clock_survives_a_restart_and_never_goes_back(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    catalog.clock.advance(3 * HOUR_US)
    assert open_catalog(tmp_path).clock.offset_us == 3 * HOUR_US
    with pytest.raises(Invalid, match="Clock cannot go back"):
        catalog.clock.advance(-1)
    with pytest.raises(Invalid, match=r"cannot go back, here by \[1[.\d]*\] seconds"):
        catalog.clock.move_to(catalog.clock.now_us() - MICROSECONDS)


def test_clone_has_rows_and_layout_but_no_options_of_its_source(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    settings = replace(SETTINGS, partition_expiration_ms=700 * DAY_MS, labels={"a": "b"}, description="rows")
    source = put(catalog, "staging", rows_of([TODAY], 1), settings)
    target = clone(catalog, "target", "staging")
    assert target.settings == SETTINGS
    assert [part.file for part in target.segments()] == [part.file for part in source.segments()]
    given = clone(catalog, "target", "staging", TableOptions(frozenset({"labels"}), labels=(("generation", "2"),)))
    assert given.settings.labels == {"generation": "2"}
    assert given.clone is not None
    assert given.clone.base == table_id("staging")


def test_clone_keeps_the_rows_when_its_source_changes(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "staging", rows_of([TODAY], 1))
    clone(catalog, "target", "staging")
    put(catalog, "staging", rows_of([TODAY], 2))
    catalog.clock.advance(8 * 24 * HOUR_US)
    GarbageCollector(catalog).sweep(removes_segments_always=True)
    assert numbers(catalog, catalog.get(table_id("target"))) == [1] * 3


def test_clone_refuses_another_partitioning(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "staging", rows_of([TODAY], 1))
    put(catalog, "target", rows_of([TODAY], 1), replace(SETTINGS, partition_column=None))
    with pytest.raises(Invalid, match="Cannot replace a table with a different partitioning spec"):
        clone(catalog, "target", "staging")


def test_clone_refuses_another_clustering(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "staging", rows_of([TODAY], 1), replace(SETTINGS, clustering=("number",)))
    put(catalog, "target", rows_of([TODAY], 1))
    with pytest.raises(Invalid, match="Cannot replace a table with a different clustering spec"):
        clone(catalog, "target", "staging")


def test_clone_refuses_itself_its_source_and_a_fourth_level(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "a", rows_of([TODAY], 1))
    for target, source in (("b", "a"), ("c", "b"), ("d", "c")):
        clone(catalog, target, source)
    with pytest.raises(Invalid, match="onto itself"):
        clone(catalog, "a", "a")
    with pytest.raises(Invalid, match="is itself a clone of"):
        clone(catalog, "a", "c")
    with pytest.raises(Invalid, match=r"\[4\] deep, allowed \[3\]"):
        clone(catalog, "e", "d")


def test_update_rate_is_limited_per_table_and_recovers(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path, replace(UNLIMITED, updates_per_10_s_partitioned=3))
    for number in range(3):
        put(catalog, "t", rows_of([TODAY], number))
    with pytest.raises(RateLimitExceeded, match=r"\[4\] in 10 seconds, allowed \[3\]"):
        put(catalog, "t", rows_of([TODAY], 3))
    put(catalog, "other", rows_of([TODAY], 3))
    catalog.clock.advance(11 * MICROSECONDS)
    put(catalog, "t", rows_of([TODAY], 3))


def test_partition_modifications_are_limited_in_24_hours_and_per_job(tmp_path: Path) -> None:
    """A rolling window: the quota refills over 24 hours (optimize-load-jobs)."""
    limits = QuotaLimits(partition_modifications_per_day=5, partitions_per_job=3, updates_per_10_s_partitioned=100)
    catalog = open_catalog(tmp_path, limits)
    days = [days_ago(number) for number in range(4)]
    with pytest.raises(QuotaExceeded, match=r"allowed \[3\], found \[4\]"):
        put(catalog, "t", rows_of(days, 1))
    put(catalog, "t", rows_of(days[:3], 1))
    catalog.clock.advance(24 * HOUR_US - 60 * MICROSECONDS)
    with pytest.raises(QuotaExceeded, match=r"\[6\] in 24 hours, allowed \[5\]"):
        put(open_catalog(tmp_path, limits), "t", rows_of(days[:3], 2))
    catalog.clock.advance(61 * MICROSECONDS)
    put(catalog, "t", rows_of(days[:3], 2))


@pytest.mark.parametrize("kind", ["insert", "update", "delete", "merge", "truncate"])
def test_dml_counts_as_an_update_of_the_table_but_is_not_refused_as_one(tmp_path: Path, kind: str) -> None:
    """Nor does it count as partition modifications (quotas, "Standard tables" and "Partitioned tables")."""
    limits = QuotaLimits(partition_modifications_per_day=1, updates_per_10_s_partitioned=1)
    catalog = open_catalog(tmp_path, limits)
    for number in range(3):
        put(catalog, "t", rows_of([TODAY], number), kind=kind)
    with pytest.raises(RateLimitExceeded, match=r"\[4\] in 10 seconds, allowed \[1\]"):
        put(catalog, "t", rows_of([TODAY], 4))
    catalog.clock.advance(11 * MICROSECONDS)
    put(catalog, "t", rows_of([TODAY], 4))


def test_dml_statements_of_a_table_are_limited_in_10_seconds(tmp_path: Path) -> None:
    """25 statements for each table (quotas, "Data manipulation language statements")."""
    catalog = open_catalog(tmp_path, QuotaLimits())
    put(catalog, "t", rows_of([TODAY], 0))
    for number in range(25):
        put(catalog, "t", rows_of([TODAY], number), kind="update")
    with pytest.raises(RateLimitExceeded, match=r"\[26\] DML statements in 10 seconds, allowed \[25\]"):
        put(open_catalog(tmp_path, QuotaLimits()), "t", rows_of([TODAY], 26), kind="update")
    catalog.clock.advance(11 * MICROSECONDS)
    put(catalog, "t", rows_of([TODAY], 26), kind="update")


@pytest.mark.parametrize("kind", ["load", "query", "clone"])
def test_jobs_that_write_an_unpartitioned_table_are_limited_in_24_hours(tmp_path: Path, kind: str) -> None:
    """1,500 modifications of a table, without DML (quotas, "Standard tables")."""
    catalog = open_catalog(tmp_path, QuotaLimits(table_modifications_per_day=2))

    def change(kind: str) -> None:
        catalog.clock.advance(11 * MICROSECONDS)
        catalog.commit(table_id("plain"), lambda *_: Change(kind, TableSettings(SETTINGS.schema), {}))

    change("create")
    for _ in range(2):
        change(kind)
        change("update")
    with pytest.raises(QuotaExceeded, match=r"\[3\] in 24 hours, allowed \[2\]"):
        change(kind)
    catalog.clock.advance(24 * HOUR_US)
    change(kind)


@pytest.mark.parametrize("name", ["_TABLE_x", "_file_name", "_PartitionTime", "__root__", "_CHANGE_TYPE", "x" * 301])
def test_reserved_and_overlong_column_names_are_refused(name: str) -> None:
    """ "Specifying a schema", column names."""
    with pytest.raises(Invalid, match="Invalid field name"):
        check_settings(table_id("t"), TableSettings((*SETTINGS.schema, TableField(name, "INT64"))))


def test_dataset_with_tables_is_dropped_only_with_its_contents(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    put(catalog, "t", rows_of([TODAY], 1))
    with pytest.raises(ResourceInUse, match="still in use"):
        catalog.drop_dataset(WAREHOUSE, delete_contents=False)
    catalog.drop_dataset(WAREHOUSE, delete_contents=True)
    assert open_catalog(tmp_path).find(table_id("t")) is None


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a$b", "x" * 201])
def test_impossible_table_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="Invalid table ID"):
        put(open_catalog(tmp_path), name, rows_of([TODAY], 1))
