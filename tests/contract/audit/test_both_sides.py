"""The statement, run by the stand-in through the client library, agrees with the reading of files on all types."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import (
    LoadJobConfig,
    ParquetOptions,
    QueryJobConfig,
    ScalarQueryParameter,
    TimePartitioning,
)
from google.cloud.storage import Client as Storage

from dedup_clone.audit.fingerprint_files import fingerprint_batches
from dedup_clone.state.audits import PartitionFingerprint
from dedup_clone.warehouse.sql_files import TableNames, column_sql, render
from testkit.job_templates import SQL
from tests.shared.audit_values import COLUMNS, DAY, TABLE, batch, random_rows

Row = dict[str, Any]
ROWS = 300


def found(bigquery: BigQuery, table: str) -> PartitionFingerprint:
    names = TableNames("local-dev", "warehouse", "unused", table)
    config = QueryJobConfig(query_parameters=[ScalarQueryParameter("audited_date", "DATE", DAY)])
    sql = render(SQL, "checks/content_audit.sql", names=names, table=TABLE)
    (row,) = bigquery.query_and_wait(sql, job_config=config)
    return PartitionFingerprint(row["row_count"], row["exclusive_or"], int(row["total"]))


def load(bigquery: BigQuery, table: str, rows: list[Row]) -> None:
    columns = ", ".join(column_sql(column) for column in COLUMNS)
    bigquery.query_and_wait(f"CREATE OR REPLACE TABLE warehouse.{table} ({columns}) PARTITION BY date")
    content, options = io.BytesIO(), ParquetOptions()
    pq.write_table(pa.Table.from_batches([batch(rows)]), content)
    options.enable_list_inference = True
    config = LoadJobConfig(
        source_format="PARQUET",
        parquet_options=options,
        time_partitioning=TimePartitioning(field="date"),
        write_disposition="WRITE_APPEND",
        # Without it a DATETIME would arrive as a TIMESTAMP.
        schema=bigquery.get_table(f"local-dev.warehouse.{table}").schema,
    )
    content.seek(0)
    bigquery.load_table_from_file(content, f"local-dev.warehouse.{table}", job_config=config).result()


def test_random_rows_of_all_types_are_equal(clients: tuple[Storage, BigQuery]) -> None:
    rows = random_rows(0, ROWS)
    load(clients[1], "audited", rows)
    assert found(clients[1], "audited") == fingerprint_batches(TABLE, [batch(rows)])
