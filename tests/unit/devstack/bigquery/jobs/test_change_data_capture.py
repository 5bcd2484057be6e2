"""Streamed upserts and deletes: the change log, its order, and queries that merge it.

Page: "Stream table updates with change data capture".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from devstack.bigquery.bigquery_errors import AccessDenied, Invalid, NotFound
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.callers import DEFAULT_USER
from devstack.bigquery.storage.change_log import InvalidRows, RowChange, are_row_changes, sortable_sequence_number
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.table_change import Change
from tests.unit.devstack.bigquery.jobs.employees_table import (
    EMPLOYEES,
    TABLE,
    advance,
    append,
    delete,
    failure,
    make_employees,
    queried,
    upsert,
)
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return make_employees(tmp_path)


def test_a_query_merges_changes_and_storage_keeps_its_rows(warehouse: Warehouse) -> None:
    append(warehouse, delete(100), upsert(101, "Tal", 8000), upsert(105, "Izumi", 6000))
    assert queried(warehouse) == [(101, "Tal", 8000), (102, "Lee", 5000), (105, "Izumi", 6000)]
    assert warehouse.rows("d.t") == EMPLOYEES


def test_changes_survive_a_restart(warehouse: Warehouse, tmp_path: Path) -> None:
    append(warehouse, upsert(101, "Tal", 1))
    append(warehouse, upsert(101, "Tal", 2))
    reopened = Warehouse(tmp_path)
    reopened.stand_in.garbage_collector.sweep(removes_segments_always=True)
    assert queried(reopened)[1] == (101, "Tal", 2)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("77", "7B"), ("FFF/B", "FFF/ABC"), ("BA/FFFFFFFF", "ABC"), ("ABC", "FFF/ABC"), ("a", "B"), ("0", "F" * 16)],
)
def test_sequence_numbers_are_compared_section_by_section(warehouse: Warehouse, smaller: str, larger: str) -> None:
    assert sortable_sequence_number(smaller) < sortable_sequence_number(larger)
    append(warehouse, upsert(1, "larger", 1, larger), upsert(1, "smaller", 2, smaller))
    assert queried(warehouse, "SELECT name FROM d.t WHERE id = 1") == [("larger",)]


def test_of_equal_sequence_numbers_the_later_change_counts(warehouse: Warehouse) -> None:
    append(warehouse, upsert(1, "first", 1, "A"), upsert(1, "second", 2, "a"))
    append(warehouse, upsert(1, "third", 3, "000A"))
    assert queried(warehouse, "SELECT name FROM d.t WHERE id = 1") == [("third",)]


def test_without_sequence_numbers_the_later_change_counts(warehouse: Warehouse) -> None:
    append(warehouse, upsert(1, "first", 1), delete(1), upsert(1, "second", 2))
    append(warehouse, upsert(2, "first", 1), delete(2))
    assert queried(warehouse, "SELECT id, name FROM d.t WHERE id < 100") == [(1, "second")]


def test_an_upsert_replaces_all_rows_with_its_key_in_every_partition(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, number INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day"
    )
    warehouse.statistics("INSERT d.p VALUES (CURRENT_DATE(), 1, 1), (DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY), 1, 2)")
    change = RowChange("UPSERT", None, {"day": None, "id": 1, "number": 3})
    append(warehouse, change, table=TableId("local-dev", "d", "p"))
    assert queried(warehouse, "SELECT * FROM d.p") == [(None, 1, 3)]


def test_a_query_that_merges_bills_the_whole_table(warehouse: Warehouse) -> None:
    before = warehouse.statistics("SELECT id FROM d.t")["totalBytesProcessed"]
    append(warehouse, delete(100))
    merged = warehouse.statistics("SELECT id FROM d.t")
    dry = warehouse.statistics("SELECT COUNT(*) FROM d.t")
    whole = sum(8 + 8 + 2 + len(name) for _, name, _ in EMPLOYEES)
    change = 8 + 2 + len("DELETE")
    assert (before, merged["totalBytesProcessed"]) == ("24", str(whole + change))
    assert dry["totalBytesProcessed"] == str(whole + change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (RowChange("INSERT", None, {"id": 1}), "not a valid CHANGE_TYPE"),
        (RowChange("upsert", None, {"id": 1}), "not a valid CHANGE_TYPE"),
        (RowChange("UPSERT", None, {"name": "x"}), "Field id of the primary key has no value"),
        (RowChange("DELETE", None, {"id": None}), "Field id of the primary key has no value"),
        (RowChange("DELETE", "", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "0/1/2/3/4", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "G", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "0" * 17, {"id": 1}), "hexadecimal"),
    ],
)
def test_a_wrong_change_is_refused_with_all_of_its_request(
    warehouse: Warehouse, change: RowChange, problem: str
) -> None:
    with pytest.raises(InvalidRows, match=problem) as refused:
        append(warehouse, delete(101, None if change.sequence_number is None else "1"), change)
    assert set(refused.value.rows) == {1}
    assert warehouse.stand_in.catalog.get(TABLE).change_log is None


def test_an_upsert_without_a_required_column_is_refused(warehouse: Warehouse) -> None:
    warehouse.statistics("CREATE TABLE d.r (id INT64, a INT64 NOT NULL, PRIMARY KEY (id) NOT ENFORCED)")
    table = TableId("local-dev", "d", "r")
    with pytest.raises(InvalidRows, match="Required field a has no value"):
        append(warehouse, RowChange("UPSERT", None, {"id": 1}), table=table)
    append(warehouse, RowChange("UPSERT", None, {"ID": 1, "A": 2}), RowChange("DELETE", None, {"id": 3}), table=table)
    assert queried(warehouse, "SELECT * FROM d.r") == [(1, 2)]


def test_changes_are_fitted_to_parameterized_types(warehouse: Warehouse) -> None:
    warehouse.statistics("CREATE TABLE d.r (id NUMERIC(3, 1), name STRING(3), PRIMARY KEY (id) NOT ENFORCED)")
    table = TableId("local-dev", "d", "r")
    with pytest.raises(InvalidRows, match=r"Field name: .*maximum length 3") as refused:
        append(warehouse, RowChange("UPSERT", None, {"id": Decimal(1), "name": "long"}), table=table)
    assert set(refused.value.rows) == {0}
    for key, name in (("1.04", "a"), ("1.0", "b")):
        append(warehouse, RowChange("UPSERT", None, {"id": Decimal(key), "name": name}), table=table)
    assert queried(warehouse, "SELECT * FROM d.r") == [(Decimal(1), "b")]


def test_changes_with_and_without_sequence_numbers_are_not_mixed(warehouse: Warehouse) -> None:
    with pytest.raises(Invalid, match="unpredictable"):
        append(warehouse, delete(1, "1"), delete(2))
    append(warehouse, delete(1, "1"))
    with pytest.raises(Invalid, match="unpredictable"):
        append(warehouse, delete(2))


def test_a_table_without_primary_key_takes_no_changes(warehouse: Warehouse) -> None:
    warehouse.statistics("ALTER TABLE d.t DROP PRIMARY KEY")
    with pytest.raises(Invalid, match="needs a primary key"):
        append(warehouse, delete(1))
    with pytest.raises(NotFound):
        append(warehouse, delete(1), table=TableId("local-dev", "d", "absent"))


def test_a_table_with_changes_has_at_most_two_thousand_columns(warehouse: Warehouse) -> None:
    columns = ", ".join(f"c{number} INT64" for number in range(2001))
    warehouse.statistics(f"CREATE TABLE d.wide ({columns}, PRIMARY KEY (c0) NOT ENFORCED)")
    with pytest.raises(Invalid, match=r"at most \[2000\] columns"):
        append(warehouse, RowChange("DELETE", None, {"c0": 1}), table=TableId("local-dev", "d", "wide"))


def test_a_connection_does_not_mix_changes_with_plain_rows() -> None:
    assert are_row_changes(["UPSERT", "DELETE"], None)
    assert are_row_changes(["UPSERT"], True)
    assert not are_row_changes([None, "INSERT"], None)
    for kinds, before in ((["UPSERT", None], None), (["UPSERT"], False), ([None], True)):
        with pytest.raises(Invalid, match=r"^The given value is not a valid CHANGE_TYPE$"):
            are_row_changes(kinds, before)


def test_row_policies_need_the_true_filter(warehouse: Warehouse) -> None:
    """ "Using row-level security with other BigQuery features", streaming updates."""
    warehouse.statistics("CREATE ROW ACCESS POLICY p ON d.t GRANT TO ('user:other@example.com') FILTER USING (TRUE)")
    with pytest.raises(AccessDenied, match="Change data capture needs a row access policy"):
        append(warehouse, delete(1))
    warehouse.statistics(f"CREATE ROW ACCESS POLICY q ON d.t GRANT TO ('user:{DEFAULT_USER}') FILTER USING (TRUE)")
    append(warehouse, delete(1))


def test_policy_tags_of_the_key_are_checked_and_those_of_other_columns_are_not(warehouse: Warehouse) -> None:
    """ "Impact on writes with column-level access control", Storage Write API."""
    tag = "projects/p/locations/us/taxonomies/1/policyTags/2"

    def put_tag(name: str) -> None:
        def change(current: TableVersion | None, commit_us: int) -> Change:
            assert current is not None
            schema = tuple(
                replace(column, policy_tags=(tag,) if column.name == name else ()) for column in current.settings.schema
            )
            return Change("options", replace(current.settings, schema=schema), current.partitions)

        warehouse.stand_in.catalog.commit(TABLE, change)

    put_tag("salary")
    append(warehouse, delete(1))
    put_tag("id")
    with pytest.raises(AccessDenied, match="fine-grained read access to column id"):
        append(warehouse, delete(1))


def test_the_key_is_not_changed_while_changes_are_pending(warehouse: Warehouse) -> None:
    append(warehouse, delete(100))
    assert "active with change data capture" in failure(warehouse, "ALTER TABLE d.t DROP PRIMARY KEY")
    warehouse.statistics("CREATE OR REPLACE TABLE d.t AS SELECT 1 AS id")
    assert queried(warehouse) == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE d.t SET salary = 1 WHERE TRUE",
        "DELETE FROM d.t WHERE TRUE",
        "MERGE d.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE d.t",
    ],
)
def test_dml_that_changes_rows_is_refused_while_changes_are_pending(warehouse: Warehouse, sql: str) -> None:
    warehouse.statistics("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE)")
    append(warehouse, delete(100))
    assert "not supported over table local-dev:d.t" in failure(warehouse, sql)
    warehouse.statistics("INSERT d.t VALUES (7, 'Ann', 1)")
    advance(warehouse, minutes=5)
    warehouse.statistics(sql)


def test_a_query_that_merges_needs_a_table_without_required_partition_filter(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day "
        "OPTIONS (require_partition_filter = TRUE)"
    )
    table = TableId("local-dev", "d", "p")
    append(warehouse, RowChange("UPSERT", None, {"id": 1}), table=table)
    assert "require_partition_filter" in failure(warehouse, "SELECT id FROM d.p WHERE day IS NULL")


def test_a_change_of_an_expired_day_is_not_shown(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day "
        "OPTIONS (partition_expiration_days = 2)"
    )
    today = warehouse.stand_in.clock.now().date()
    days = (today, today - timedelta(days=5))
    changes = [RowChange("UPSERT", None, {"day": day, "id": number}) for number, day in enumerate(days)]
    append(warehouse, *changes, table=TableId("local-dev", "d", "p"))
    assert queried(warehouse, "SELECT id FROM d.p") == [(0,)]


def test_changes_from_before_a_column_was_added_have_null_in_it(warehouse: Warehouse) -> None:
    def add_column(current: TableVersion | None, commit_us: int) -> Change:
        assert current is not None
        schema = (*current.settings.schema, TableField("added", "STRING"))
        return Change("load", replace(current.settings, schema=schema), {})

    append(warehouse, upsert(1, "before", 1))
    warehouse.stand_in.catalog.commit(TABLE, add_column)
    append(warehouse, RowChange("UPSERT", None, {"id": 2, "added": "after"}))
    assert queried(warehouse, "SELECT id, added FROM d.t ORDER BY id") == [(1, None), (2, "after")]
