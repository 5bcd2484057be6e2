"""DML on tables whose columns are named like those that DuckDB adds to the rows of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


def test_a_column_may_be_named_filename(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d; CREATE TABLE d.t (filename STRING, v INT64)")
    warehouse.statistics("INSERT d.t (filename, v) VALUES ('a', 1), ('b', 2)")
    warehouse.statistics("UPDATE d.t SET v = 3, filename = 'c' WHERE filename = 'a'")
    warehouse.statistics("DELETE d.t WHERE filename = 'b'")
    assert warehouse.rows("d.t") == [("c", 3)]


@pytest.mark.parametrize("name", ["__row", "__file", "file_row_number"])
def test_a_column_that_cannot_be_told_from_the_number_of_a_row_is_refused_by_name(tmp_path: Path, name: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics(f"CREATE SCHEMA d; CREATE TABLE d.t ({name} STRING)")
    warehouse.statistics(f"INSERT d.t ({name}) VALUES ('a')")
    assert warehouse.rows("d.t") == [("a",)]
    failed = warehouse.run(f"UPDATE d.t SET {name} = 'b' WHERE TRUE")
    assert f"a column [{name}]" in str(failed.error)
