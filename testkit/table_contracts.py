"""Defines table contracts for tests and benchmarks, and converts a contract into an OracleTable."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.table import Column, ColumnMode, PartitionBy, TableContract
from testkit.oracle import OracleTable


def _columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, column_type) for name, column_type in types.items())


PRODUCTS = TableContract(
    columns=_columns(
        date="DATE", product_id="INT64", store_id="INT64", attribute_id="INT64", attr_value="INT64", update_id="INT64"
    ),
    partition_column="date",
    snapshot_id_column="update_id",
    keys=("date", "product_id", "store_id", "attribute_id"),
    cluster_by=("product_id", "store_id"),
    retention_days=730,
)

# Keys of several types, in another order than the columns, and values of every type whose sort order is not obvious.
NESTED = TableContract(
    columns=(
        Column("amount", "FLOAT64"),
        Column("name", "STRING", ColumnMode.REQUIRED),
        Column("day", "DATE"),
        Column("note", "STRING"),
        Column("seen", "BOOL"),
        Column("raw", "BYTES"),
        Column("code", "INT64"),
        Column("tags", "STRING", ColumnMode.REPEATED),
        Column("info", "STRUCT", fields=(Column("weight", "FLOAT64"), Column("label", "STRING"))),
        Column("parts", "STRUCT", ColumnMode.REPEATED, fields=_columns(number="INT64", price="NUMERIC")),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("name", "day", "code"),
    cluster_by=("code",),
    retention_days=730,
)

# A key column of every type that may be one.
EVERY_KEY = TableContract(
    columns=_columns(
        number="INT64", day="DATE", name="STRING", raw="BYTES", flag="BOOL", price="NUMERIC", at="TIMESTAMP",
        local="DATETIME", other_day="DATE", value="FLOAT64", version="INT64",
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("number", "day", "name", "raw", "flag", "price", "at", "local", "other_day"),
    cluster_by=("name",),
    retention_days=730,
)  # fmt: skip


def by_time(table: TableContract, kind: str, unit: PartitionBy = PartitionBy.DAY) -> TableContract:
    """The table with a column of another type, TIMESTAMP or DATETIME, in place of its date."""
    columns = tuple(replace(c, type=kind) if c.name == table.partition_column else c for c in table.columns)
    days = 100 if unit is PartitionBy.HOUR else table.retention_days  # BigQuery limits the number of partitions
    return replace(table, columns=columns, partition_by=unit, retention_days=days)


def oracle_table(table: TableContract) -> OracleTable:
    """The columns of a table contract, as the oracle takes them."""
    return OracleTable(
        partition_column=table.partition_column,
        snapshot_id_column=table.snapshot_id_column,
        keys=table.keys,
        value_columns=tuple(column.name for column in table.value_columns),
    )
