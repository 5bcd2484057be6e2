"""Compares what a DataFrame plan gives the writer with the declared columns and, on a sample of keys, with its input.

A fingerprint of the sampled rows is computed where they are read and travels with them, so that nothing is read again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.table import TableContract
from dedup_spark.column_types import spark_schema
from dedup_spark.plans.dataframe.helper_columns import HELPER_COLUMNS, READ_FINGERPRINT, SURPLUS
from dedup_spark.plans.dataframe.row_ranking import key_order

# One key of so many is sampled.
_SAMPLED_ONE_IN = 64
_NEXT = "The table stays as it is. Next: replay with plan [rewrite] or engine [bigquery], and report the fault."


def with_fingerprint(rows: DataFrame, table: TableContract) -> DataFrame:
    """Add the fingerprint of each sampled row, NULL for the others."""
    return rows.withColumn(READ_FINGERPRINT, _fingerprint(table))


def checked_output(rows: DataFrame, table: TableContract) -> DataFrame:
    """Return the columns that are written, in the order of the output files.

    Raises ContractViolation if they are not the declared columns. Spark's job fails if the keys or values of a sampled
    row are not those with which the row was read. Its update_id may have changed.
    """
    declared = spark_schema(table.columns)
    found = rows.select(*declared.fieldNames()).schema
    wrong = [field.name for field, expected in zip(found, declared, strict=True) if field.dataType != expected.dataType]
    if wrong:
        raise ContractViolation(f"The plan gives columns {wrong} another type than declared. {_NEXT}")
    fault = f.raise_error(f.lit(f"The plan changed a row between reading and writing it. {_NEXT}"))
    is_changed = f.col(READ_FINGERPRINT).isNotNull() & (
        f.col(READ_FINGERPRINT) != f.coalesce(_fingerprint(table), f.lit(0))
    )
    # The check is part of a column that is no sort key, so that Spark still sees that the rows are sorted already.
    surplus = f.when(is_changed, fault.cast("boolean")).otherwise(f.col(SURPLUS)).alias(SURPLUS)
    helpers = [surplus if name == SURPLUS else f.col(name) for name in HELPER_COLUMNS]
    ordered = rows.select(*declared.fieldNames(), *helpers)
    return ordered.sortWithinPartitions(*key_order(table)[:2], *table.cluster_by)


def _fingerprint(table: TableContract) -> Column:
    is_sampled = f.pmod(f.xxhash64(*table.keys), f.lit(_SAMPLED_ONE_IN)) == 0
    columns = [column.name for column in table.columns if column.name != table.snapshot_id_column]
    return f.when(is_sampled, f.xxhash64(*columns))
