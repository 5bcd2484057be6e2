"""Computes with DuckDB what the published table must be, from the landed files alone, and compares it with the table.

The computation shares no code with the publishes that it checks. For each key the row with the highest snapshot id
wins, and within one snapshot the row with the greatest value. Keys that later snapshots lack stay. No expired dates are
dropped, because the demo's feeds have none. The order of rows does not count, duplicates do.
"""

import tempfile
from collections.abc import Collection
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from devstack.connection import Connection
from devstack.producer import landing
from devstack.producer.feeds import KEYS, SCHEMA, SNAPSHOT_ID, VALUE

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

_COLUMNS = ", ".join(SCHEMA.names)
_STATEMENT = f"""
SELECT {_COLUMNS}
FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
QUALIFY row_number() OVER (
  PARTITION BY {", ".join(KEYS)}
  ORDER BY {SNAPSHOT_ID} DESC, {VALUE} DESC NULLS LAST
) = 1
"""


def expected_table(bucket: "Bucket", feed: str, refused: Collection[Delivery] = ()) -> pa.Table:
    """The table that must be published after all complete snapshots in the landing bucket, without those `refused`."""
    files: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dedup-clone-") as local:
        for snapshot_id in landing.snapshot_ids(bucket, feed, refused=refused):
            for blob in bucket.client.list_blobs(bucket, prefix=landing.folder_of(feed, snapshot_id)):
                if blob.name.endswith(".parquet"):
                    files.append(f"{local}/{len(files):06d}.parquet")
                    blob.download_to_filename(files[-1])
        if not files:
            return SCHEMA.empty_table()
        with duckdb.connect() as connection:
            computed: pa.Table = connection.sql(_STATEMENT, params={"files": files}).to_arrow_table()
            return computed.cast(SCHEMA)


def read_target(connection: Connection, feed: str) -> pa.Table:
    """All rows of the feed's target."""
    table = f"`{connection.project}.{connection.dataset}.{feed}`"
    rows = connection.bigquery_client().query(f"SELECT {_COLUMNS} FROM {table}").result()
    return rows.to_arrow(create_bqstorage_client=False).cast(SCHEMA)


def differences(published: pa.Table, expected: pa.Table) -> list[str]:
    """The published rows that are not expected, and the expected rows that are not published, as text."""
    with duckdb.connect() as connection:
        connection.register("published", published)
        connection.register("expected", expected)
        return [
            *(f"published, not expected: {row}" for row in _except(connection, "published", "expected")),
            *(f"expected, not published: {row}" for row in _except(connection, "expected", "published")),
        ]


def _except(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> list[str]:
    """The rows of table `left` that table `right` lacks, as text."""
    statement = f"SELECT {_COLUMNS} FROM {left} EXCEPT ALL SELECT {_COLUMNS} FROM {right} ORDER BY ALL"
    rows = connection.execute(statement).fetchall()
    return [", ".join(f"{name}={value}" for name, value in zip(SCHEMA.names, row, strict=True)) for row in rows]
