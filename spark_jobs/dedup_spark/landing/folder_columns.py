"""Fills the partition column and the snapshot id of landed files that lack them, from the names of their folders.

Writers of Hive partitions leave the partition column out of their files. Files that the job wrote have all columns.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

import pyarrow as pa

from dedup_clone.contract.table import TableContract


def with_folder_columns(
    table: TableContract, uri: str, batch: pa.RecordBatch, needed: Collection[str]
) -> pa.RecordBatch:
    """The batch of the file `uri` with the partition column and the snapshot id column, if `needed` has their names.

    Only validated files may lack them, so the folders are there: `snapshot_id=N/COLUMN=YYYY-MM-DD/FILE`.
    """
    for name in (table.partition_column, table.snapshot_id_column):
        if name in needed and batch.schema.get_field_index(name) < 0:
            column = pa.repeat(_folder_value(table, uri, name), batch.num_rows)
            batch = pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, name])
    return batch


def _folder_value(table: TableContract, uri: str, name: str) -> pa.Scalar:
    if name == table.partition_column:
        return pa.scalar(date.fromisoformat(uri.rsplit(f"/{name}=", 1)[1].partition("/")[0]), pa.date32())
    return pa.scalar(int(uri.rsplit("/snapshot_id=", 1)[1].partition("/")[0]), pa.int64())
