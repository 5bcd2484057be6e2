"""Clustered tables: which blocks a query reads, what a dry run says before, and what re-clustering changes.

Rules are those of "Introduction to clustered tables" and "Query clustered tables".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.shared.stand_in_client import PROJECT, TODAY, Control, load, upload

ROWS = 1_000_000
KEYS = 50_000
ROW_BYTES = 8 + 8 + 4 + 8  # day, a, b with its length, n
SCHEMA = [bigquery.SchemaField(n, t) for n, t in (("day", "DATE"), ("a", "INT64"), ("b", "STRING"), ("n", "INT64"))]


def shuffled_rows(rows: int, seed: int = 0) -> pa.Table:
    """Every value of `a` from 0 to KEYS - 1 equally often, in no order."""
    a = np.random.default_rng(seed).permutation(rows) % KEYS
    b = np.char.add("k", (a % 7).astype("U1"))
    day = np.full(rows, np.datetime64(TODAY, "D"))
    return pa.table({"day": pa.array(day), "a": a, "b": pa.array(b.tolist()), "n": np.arange(rows)})


def clustered_table(client: bigquery.Client, name: str) -> str:
    table = bigquery.Table(f"{PROJECT}.{name}", schema=SCHEMA)
    table.time_partitioning = bigquery.TimePartitioning(field="day")
    table.clustering_fields = ["a", "b"]
    client.create_table(table)
    return name


@pytest.fixture(scope="module")
def table(client: bigquery.Client, bucket: storage.Bucket) -> str:
    client.create_dataset("clustering")
    name = clustered_table(client, "clustering.big")
    load(client, upload(bucket, "clustering/big.parquet", shuffled_rows(ROWS)), name, "WRITE_APPEND")
    return name


def query(client: bigquery.Client, sql: str, **options: object) -> bigquery.QueryJob:
    config = bigquery.QueryJobConfig(use_query_cache=False, **options)  # type: ignore[arg-type]
    job = client.query(sql, job_config=config)
    job.result()
    return job


@pytest.mark.parametrize(
    ("condition", "share"),  # of the rows whose blocks are read, without the rest of the first and last block
    [
        ("a = 17", 0.0),
        pytest.param("17 = a", 0.0, marks=pytest.mark.exhaustive),
        ("a BETWEEN 10000 AND 19999", 0.2),
        pytest.param("a < 10000", 0.2, marks=pytest.mark.exhaustive),
        pytest.param("a >= 40000 AND n > 3", 0.2, marks=pytest.mark.exhaustive),
        ("a IN (3, 25000, 49999)", 0.0),
        ("(a < 5000 OR a > 45000) AND b LIKE 'k3%'", 0.2),
        ("day = CURRENT_DATE() AND a = @key", 0.0),
        pytest.param("a = 60000", 0.0, marks=pytest.mark.exhaustive),
        ("a IS NULL", 0.0),
    ],
)
def test_simple_filters_on_the_first_clustering_column_read_only_their_blocks(
    client: bigquery.Client, table: str, condition: str, share: float
) -> None:
    given = [bigquery.ScalarQueryParameter("key", "INT64", 25_000)] if "@" in condition else []
    config = bigquery.QueryJobConfig(query_parameters=given, use_query_cache=False)
    sql = f"SELECT COUNTIF(a >= 0 AND n >= 0 AND b > '' AND day IS NOT NULL) FROM {table} WHERE {condition}"
    job = client.query(sql, job_config=config)
    rows = shuffled_rows(ROWS)
    (found,) = next(iter(job.result()))
    assert found == sum_of_matches(rows, condition)
    blocks = share * ROWS * ROW_BYTES / (1 << 20)
    assert (blocks - 1) * (1 << 20) <= job.total_bytes_processed <= (blocks + 6) * (1 << 20)


def sum_of_matches(rows: pa.Table, condition: str) -> int:
    a, n, b = (rows.column(name).to_numpy() for name in ("a", "n", "b"))
    python = {
        "a = 17": a == 17,
        "17 = a": a == 17,
        "a BETWEEN 10000 AND 19999": (a >= 10_000) & (a <= 19_999),
        "a < 10000": a < 10_000,
        "a >= 40000 AND n > 3": (a >= 40_000) & (n > 3),
        "a IN (3, 25000, 49999)": np.isin(a, [3, 25_000, 49_999]),
        "(a < 5000 OR a > 45000) AND b LIKE 'k3%'": ((a < 5_000) | (a > 45_000)) & (b == "k3"),
        "day = CURRENT_DATE() AND a = @key": a == 25_000,
        "a = 60000": a == 60_000,
        "a IS NULL": a < 0,
    }
    return int(python[condition].sum())


@pytest.mark.parametrize(
    "condition",
    ["CAST(a AS STRING) = '17'", "a + 1 = 18", "a = n", "b = 'k3'", "n = 3", "a = 17 OR n = 3", "a = (SELECT 17)"],
)
def test_functions_other_columns_and_later_columns_alone_prune_no_block(
    client: bigquery.Client, table: str, condition: str
) -> None:
    job = query(client, f"SELECT SUM(n + a), MAX(b) FROM {table} WHERE {condition}")
    assert job.total_bytes_processed == ROWS * (ROW_BYTES - 8)


def test_a_dry_run_and_the_maximum_of_billed_bytes_know_only_an_upper_bound(
    client: bigquery.Client, table: str
) -> None:
    """Documented in "Estimate and control costs": the query may fail although it would bill less."""
    sql = f"SELECT SUM(n) FROM {table} WHERE a = 17"
    dry = client.query(sql, job_config=bigquery.QueryJobConfig(dry_run=True))
    assert dry.total_bytes_processed == ROWS * 16
    assert dry._properties["statistics"]["query"]["totalBytesProcessedAccuracy"] == "UPPER_BOUND"
    assert query(client, sql).total_bytes_billed == 10 << 20
    with pytest.raises(exceptions.BadRequest, match="limit for bytes billed: 11000000"):
        query(client, sql, maximum_bytes_billed=11_000_000)


def test_writes_are_sorted_each_by_itself_until_the_partition_is_reclustered(
    client: bigquery.Client, dataset: str, bucket: storage.Bucket, control: Control
) -> None:
    """Automatic re-clustering: free, in the background, within each partition."""
    name = clustered_table(client, f"{dataset}.t")
    for seed in range(4):
        rows = shuffled_rows(100_000, seed)
        load(client, upload(bucket, f"{dataset}/{seed}.parquet", rows), name, "WRITE_APPEND")

    def read(table: str) -> int:
        return query(client, f"SELECT SUM(n), MAX(b) FROM {table} WHERE a = 17").total_bytes_processed

    whole = 400_000 * (ROW_BYTES - 8)
    assert read(name) == whole / 2  # one block of the two of each load
    modified = client.get_table(f"{PROJECT}.{name}").modified
    control.advance(minutes=31)
    after = read(name)
    assert after == whole / 10  # one of ten blocks
    assert client.get_table(f"{PROJECT}.{name}").modified == modified
    client.query_and_wait(f"CREATE TABLE {dataset}.c CLONE {name}")
    assert read(f"{dataset}.c") == after
    client.query_and_wait(f"INSERT INTO {name} (day, a, b, n) VALUES (CURRENT_DATE(), 17, 'k3', 1)")
    assert read(name) == after + 8 + 4 + 8  # the new row is a block of its own
    client.query_and_wait(
        f"MERGE {name} t USING (SELECT 17 AS a, -1 AS n) s ON t.n = s.n "
        "WHEN NOT MATCHED THEN INSERT (day, a, b, n) VALUES (CURRENT_DATE(), s.a, 'k3', s.n)"
    )
    assert read(name) == after + 2 * (8 + 4 + 8)
