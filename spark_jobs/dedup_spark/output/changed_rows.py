"""Writes the rows by which a generation differs from its parent into files of their own, for engine `cdc`.

In update id mode `last_changed` these are the rows of the applied snapshots. A corrected delivery has the id of rows
that it does not change; they are among them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.output.data_file import DataFileWriter, row_groups

_FOLDER = "changes/"


@dataclass(frozen=True)
class _ChangedRows:
    """Writes the rows of one file that have one of the snapshot ids."""

    table: TableContract
    data_uri: str
    snapshot_ids: tuple[int, ...]

    def __call__(self, file: DataFile) -> DataFile | None:
        """The record of the written file, or None without such a row."""
        source = RowSource.all_rows(storage.join(self.data_uri, file.path), file.rows, file.max_update_id)
        ids = pa.array(self.snapshot_ids, pa.int64())
        writer = None
        for rows in row_groups(
            rows.filter(pc.is_in(rows[self.table.snapshot_id_column], ids))
            for rows in read_rows(KeyReader(self.table), source)
        ):
            writer = writer or DataFileWriter(self.table, storage.join(self.data_uri, _FOLDER), file.date, "changed")
            writer.write(rows)
        if writer is None:
            return None
        written = writer.close()
        return replace(written, path=f"{_FOLDER}{written.path}")


def write_changed_rows(
    request: DedupRequest, files: Sequence[DataFile], snapshot_ids: Sequence[int], fan_out: FanOut
) -> tuple[DataFile, ...]:
    """Write the rows of `files`, which lie in the data folder, that have one of the snapshot ids.

    Returns the records of the written files. A file whose ids are all older is not read.
    """
    oldest = min(snapshot_ids, default=0)
    candidates = [file for file in files if snapshot_ids and file.max_update_id >= oldest]
    writer = _ChangedRows(request.table, request.data_uri, tuple(snapshot_ids))
    total = sum(file.size for file in candidates)
    return tuple(f for f in fan_out.map(writer, candidates, total, "write changed rows") if f is not None)
