"""Makes a table with a primary key, streams changes into it, and reads its rows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from devstack.bigquery.clock import MICROSECONDS
from devstack.bigquery.storage.callers import DEFAULT_USER
from devstack.bigquery.storage.change_log import RowChange, append_changes
from devstack.bigquery.storage.model import TableId, TableVersion
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

TABLE = TableId("local-dev", "d", "t")
EMPLOYEES = [(100, "Charlie", 2000), (101, "Tal", 3000), (102, "Lee", 5000)]


def make_employees(folder: Path) -> Warehouse:
    """A warehouse with a table that has a primary key."""
    warehouse = Warehouse(folder)
    warehouse.statistics("CREATE SCHEMA d")
    warehouse.statistics(
        "CREATE TABLE d.t (id INT64 NOT NULL, name STRING, salary INT64, PRIMARY KEY (id) NOT ENFORCED)"
    )
    values = ", ".join(str(row) for row in EMPLOYEES)
    warehouse.statistics(f"INSERT d.t VALUES {values}")
    return warehouse


def upsert(key: int, name: str, salary: int, sequence: str | None = None) -> RowChange:
    return RowChange("UPSERT", sequence, {"id": key, "name": name, "salary": salary})


def delete(key: int, sequence: str | None = None) -> RowChange:
    return RowChange("DELETE", sequence, {"id": key})


def append(warehouse: Warehouse, *changes: RowChange, table: TableId = TABLE) -> TableVersion:
    return append_changes(warehouse.stand_in.catalog, warehouse.stand_in.caller(DEFAULT_USER), table, changes)


def queried(warehouse: Warehouse, sql: str = "SELECT * FROM d.t ORDER BY id") -> list[tuple[Any, ...]]:
    """The rows that a query returns, with streamed changes that are not applied yet."""
    record = warehouse.run(sql)
    assert record.error is None, record.error
    found = record.configuration["query"]["destinationTable"]
    return warehouse.rows(f"{found['datasetId']}.{found['tableId']}")


def stored(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """The sorted rows that the table stores, without streamed changes that are not applied yet."""
    return sorted(warehouse.rows("d.t"))


def failure(warehouse: Warehouse, sql: str) -> str:
    """The error message of a statement, which must fail."""
    error = warehouse.run(sql).error
    assert error is not None
    return str(error["message"])


def advance(warehouse: Warehouse, **time: float) -> None:
    """Advance the stand-in's clock, and run its garbage collector. `time`: arguments of timedelta."""
    warehouse.stand_in.clock.advance(int(timedelta(**time).total_seconds() * MICROSECONDS))
    warehouse.stand_in.garbage_collector.sweep()
