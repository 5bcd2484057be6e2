"""Keeps tables up to date by incremental models of dbt-bigquery, one model for each strategy with its settings.

Each model reads as little as its strategy allows when every delivery is a complete snapshot. A snapshot is loaded into
table `delivered` by a load job, which is free. Then dbt builds its models from that table.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.cloud.bigquery import Client, LoadJobConfig, QueryJob, SourceFormat, TimePartitioning

from dedup_spark.column_types import arrow_schema
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import parquet
from testkit.foreign_programs import Servers, dbt_profile, run_dbt, write_files
from testkit.oracle import comparable
from testkit.table_contracts import PRODUCTS, oracle_table

DATASET = "by_dbt"
# The partitioning and clustering of all tables, as settings of a model.
LAYOUT = (
    f'partition_by={{"field": "{PRODUCTS.partition_column}", "data_type": "date"}}, '
    f"cluster_by={list(PRODUCTS.cluster_by)}"
)
# A snapshot lacks rows that the table must retain, so a partition of the table is replaced by the newest row of each
# key among the rows of `delivered` and of the table (`this`). `this` needs no filter on dates: each loaded
# snapshot has rows of all dates of the table, so all partitions are replaced.
NEWEST_ROWS_SQL = f"""
select * from (
  select * from {DATASET}.delivered
  {{% if is_incremental() %}} union all select * from {{{{ this }}}} {{% endif %}}
)
where true
qualify row_number() over (partition by {", ".join(PRODUCTS.keys)} order by {PRODUCTS.snapshot_id_column} desc) = 1
"""
OVERWRITE = "incremental_strategy='insert_overwrite'"
# The settings and the query of each model.
MODELS = {
    "merge": (
        f"incremental_strategy='merge', unique_key={list(PRODUCTS.keys)}",
        f"select * from {DATASET}.delivered",
    ),
    # dbt finds the dates itself, from a temporary table with the model's rows.
    "insert_overwrite": (OVERWRITE, NEWEST_ROWS_SQL),
    "insert_overwrite of given dates": (f"{OVERWRITE}, partitions=var('days')", NEWEST_ROWS_SQL),
}


class DbtPeer:
    """A dataset with one table for each of MODELS. `folder`: the folder of dbt's project."""

    def __init__(self, servers: Servers, client: Client, folder: Path) -> None:
        self.servers = servers
        self.client = client
        self.folder = folder
        self.days: list[str] = []  # the dates of the loaded snapshot, as SQL literals
        client.create_dataset(DATASET)
        models = {
            f"models/{_file_name(model)}.sql": (
                f"{{{{ config(materialized='incremental', {LAYOUT}, {settings}) }}}}\n{query}"
            )
            for model, (settings, query) in MODELS.items()
        }
        write_files(
            folder,
            {
                **models,
                "dbt_project.yml": json.dumps({"name": "shop", "version": "1.0", "profile": "shop"}),
                "profiles.yml": dbt_profile(servers, dev=DATASET),
            },
        )

    def load(self, rows: Sequence[Row]) -> None:
        """Replace the rows of table `delivered` by those of a snapshot."""
        partitioning: Any = TimePartitioning(field=PRODUCTS.partition_column)
        options = LoadJobConfig(
            source_format=SourceFormat.PARQUET,
            write_disposition="WRITE_TRUNCATE",
            time_partitioning=partitioning,
            clustering_fields=list(PRODUCTS.cluster_by),
        )
        content = parquet(pa.Table.from_pylist(list(rows), schema=arrow_schema(PRODUCTS.columns)))
        self.client.load_table_from_file(io.BytesIO(content), f"{DATASET}.delivered", job_config=options).result()
        self.days = sorted({f"date '{row[PRODUCTS.partition_column]}'" for row in rows})

    def build(self, model: str) -> list[QueryJob]:
        """Build the table of one model, and return the query jobs that dbt ran. Raises RuntimeError if dbt fails."""
        started = datetime.now(UTC)
        variables = json.dumps({"days": self.days})
        arguments = ("run", "--select", _file_name(model), "--vars", variables)
        (result,) = run_dbt(self.servers, self.folder, *arguments).values()
        if result[0] != "success":
            raise RuntimeError(f"dbt could not build [{model}]: {result[1]}")
        return [job for job in self.client.list_jobs(min_creation_time=started) if isinstance(job, QueryJob)]

    def table_rows(self, model: str) -> list[list[Any]]:
        """The rows of one model's table, as sorted lists of comparable values (see testkit.oracle.comparable)."""
        found = self.client.query_and_wait(f"SELECT * FROM {DATASET}.{_file_name(model)}")
        return comparable(oracle_table(PRODUCTS), [dict(row.items()) for row in found])


def _file_name(model: str) -> str:
    """The name of a model's file, without the suffix, and of its table."""
    return model.replace(" ", "_")
