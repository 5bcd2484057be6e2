"""Checks the output of a DataFrame plan: it has the declared columns, and sampled rows are as they were read.

The fingerprint of a sampled row is computed when the row is read, and stays with it as a column, so that no row is read
again for the check.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.table import TableContract
from dedup_spark.column_types import spark_schema
from dedup_spark.plans.dataframe.helper_columns import HELPER_COLUMNS, READ_FINGERPRINT, SURPLUS
from dedup_spark.plans.dataframe.row_ranking import key_order

# One key in this many is sampled.
_SAMPLED_ONE_IN = 64
_NEXT = "The table stays as it is. Next: replay with plan [rewrite] or engine [bigquery], and report the fault."


def with_fingerprint(rows: DataFrame, table: TableContract) -> DataFrame:
    """Add the column READ_FINGERPRINT: the fingerprint of each sampled row, NULL for others."""
    return rows.withColumn(READ_FINGERPRINT, _fingerprint(table))


def checked_output(rows: DataFrame, table: TableContract) -> DataFrame:
    """Return the rows with the declared columns and HELPER_COLUMNS, sorted by date, output file and clustering columns.

    Raises ContractViolation if the columns are not the declared ones. The Spark job fails if the keys or values of a
    sampled row are not as they were read; its update_id may differ.
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
    # The check is in a column that is no sort key, so that Spark still knows that the rows are sorted already.
    surplus = f.when(is_changed, fault.cast("boolean")).otherwise(f.col(SURPLUS)).alias(SURPLUS)
    helpers = [surplus if name == SURPLUS else f.col(name) for name in HELPER_COLUMNS]
    ordered = rows.select(*declared.fieldNames(), *helpers)
    return ordered.sortWithinPartitions(*key_order(table)[:2], *table.cluster_by)


def _fingerprint(table: TableContract) -> Column:
    """A hash of the row without its update_id; NULL if the key is not sampled."""
    is_sampled = f.pmod(f.xxhash64(*table.keys), f.lit(_SAMPLED_ONE_IN)) == 0
    columns = [column.name for column in table.columns if column.name != table.snapshot_id_column]
    return f.when(is_sampled, f.xxhash64(*columns))
