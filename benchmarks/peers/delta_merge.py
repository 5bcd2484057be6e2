"""Merges the snapshot into a Delta table of the parent's rows with delta-rs.

Each date has a MERGE of its own, because one MERGE of all dates needs far more memory. What is not measured: writing
the parent's rows into the Delta table.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks.input_files import COLUMNS, KEYS, InputFiles
from benchmarks.peer import Peer, PeerResult


class Merge(Peer):
    def prepare(self, inputs: InputFiles, out: Path) -> None:
        for date_files in inputs.dates:
            write_deltalake(out / "table", _rows(date_files.parent), mode="append", partition_by=["date"])
        self._parent_uris = set(DeltaTable(out / "table").file_uris())

    def run(self, inputs: InputFiles, out: Path) -> None:
        same_key_sql = " AND ".join(f"old.{name} = new.{name}" for name in ("date", *KEYS))
        for date_files in inputs.dates:
            merge = DeltaTable(out / "table").merge(
                _rows(date_files.snapshot),
                f"old.date = '{date_files.day}' AND {same_key_sql}",
                source_alias="new",
                target_alias="old",
                streamed_exec=False,
            )
            merge = merge.when_matched_update_all("new.update_id > old.update_id")
            merge.when_not_matched_insert_all().execute()

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        files = [uri.removeprefix("file://") for uri in DeltaTable(out / "table").file_uris()]
        written = sum(Path(file).stat().st_size for file in files if file not in self._parent_uris)
        return PeerResult(tuple(files), bytes_written=written)


def _rows(files: tuple[str, ...]) -> pa.Table:
    """The rows of the files with the date as text, because Delta stores partition values as text in its log."""
    rows = pa.concat_tables([pq.ParquetFile(file).read(columns=list(COLUMNS)) for file in files])
    return rows.set_column(rows.schema.get_field_index("date"), "date", rows["date"].cast(pa.string()))
