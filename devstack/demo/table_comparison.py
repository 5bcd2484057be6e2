"""Computes with DuckDB what the published table must be, from the landed files alone, and compares it with the table.

The computation shares no code with the publishes that it checks. For each key the row with the highest snapshot id
wins, and within one snapshot the row with the greatest value. Keys that later snapshots lack stay. No expired dates are
dropped, because the demo's feeds have none. The order of rows does not count, duplicates do.
"""

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
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
    with tempfile.TemporaryDirectory(prefix="dedup-clone-") as folder:
        files = _download(bucket, feed, Path(folder), refused)
        if not files:
            return SCHEMA.empty_table()
        return from_files(files)


def from_files(files: list[str]) -> pa.Table:
    """The table that must be published from these Parquet files, of which there must be at least one."""
    with duckdb.connect() as connection:
        computed: pa.Table = connection.sql(_STATEMENT, params={"files": files}).to_arrow_table()
    return computed.cast(SCHEMA)


def _download(bucket: "Bucket", feed: str, folder: Path, refused: Collection[Delivery]) -> list[str]:
    """Download the files of all complete snapshots that were not refused into `folder`. Returns their paths."""
    files: list[str] = []
    for snapshot_id in landing.snapshot_ids(bucket, feed, refused=refused):
        for blob in bucket.client.list_blobs(bucket, prefix=landing.folder(feed, snapshot_id)):
            if blob.name.endswith(".parquet"):
                path = folder / f"{len(files):06d}.parquet"
                path.write_bytes(blob.download_as_bytes())
                files.append(str(path))
    return files


MAX_SAMPLES = 5


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    `too_many`: the number of published rows that are not expected. `too_few`: the number of expected rows that are not
    published. `samples`: some of these rows, as text.
    """

    published_rows: int
    expected_rows: int
    too_many: int
    too_few: int
    samples: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return self.too_many == 0 and self.too_few == 0


def read_target(connection: Connection, feed: str) -> pa.Table:
    """All rows of the feed's target."""
    table = f"`{connection.project}.{connection.dataset}.{feed}`"
    rows = connection.bigquery_client().query(f"SELECT {', '.join(SCHEMA.names)} FROM {table}").result()
    return rows.to_arrow(create_bqstorage_client=False).cast(SCHEMA)


def compare(published: pa.Table, expected: pa.Table) -> Comparison:
    """Compare two tables with the columns of SCHEMA."""
    with duckdb.connect() as connection:
        connection.register("published", published)
        connection.register("expected", expected)
        too_many = _except(connection, "published", "expected")
        too_few = _except(connection, "expected", "published")
    samples = [f"published, not expected: {row}" for row in too_many[:MAX_SAMPLES]]
    samples += [f"expected, not published: {row}" for row in too_few[:MAX_SAMPLES]]
    return Comparison(published.num_rows, expected.num_rows, len(too_many), len(too_few), tuple(samples))


def _except(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> list[str]:
    """The rows of table `left` that table `right` lacks, as text."""
    columns = ", ".join(SCHEMA.names)
    statement = f"SELECT {columns} FROM {left} EXCEPT ALL SELECT {columns} FROM {right} ORDER BY ALL"
    rows = connection.execute(statement).fetchall()
    return [", ".join(f"{name}={value}" for name, value in zip(SCHEMA.names, row, strict=True)) for row in rows]
