"""Computes with DuckDB, from the landed files alone, what the published table must be.

The computation shares no code with the publishes that it checks. For each key the row with the highest snapshot id
wins, and within one snapshot the row with the greatest value. Keys that later snapshots lack stay. No expired dates are
dropped, because the demo's feeds have none.
"""

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from devstack.producer import landing
from devstack.producer.demo_feeds import KEYS, SCHEMA, SNAPSHOT_ID, VALUE

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
