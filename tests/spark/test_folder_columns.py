"""Files without the partition column, as in Hive's layout, or without the snapshot id: the folders' names have them.

The random histories land such files, too.
"""

from __future__ import annotations

import pyarrow as pa

from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, rows


def test_without_date_folders_files_need_the_date(area: SparkJobFeed) -> None:
    area.date_folders = False
    schema = arrow_schema([column for column in PRODUCTS.columns if column.name not in ("date", "update_id")])
    table = pa.Table.from_pylist(rows(1, 1, 2), schema=schema)
    (refused,) = area.publish(area.deliver(1, {"part.parquet": table})).refused
    assert "column [date] is missing, expected [DATE]" in refused.reason
    assert "update_id" not in refused.reason


def test_a_folder_does_not_replace_what_a_file_says(area: SparkJobFeed) -> None:
    other = pa.Table.from_pylist(rows(2, 1), schema=arrow_schema(PRODUCTS.columns))
    (refused,) = area.publish(area.deliver(1, {f"date={FIRST}/part.parquet": other})).refused
    assert "column [update_id]: 1 rows have another id, expected the folder's [1]" in refused.reason
