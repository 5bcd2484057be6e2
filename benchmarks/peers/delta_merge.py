"""delta-rs: one MERGE for each date partition (all dates in one statement need far more memory).

Writing the state as a Delta table before is not timed.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks.inputs import COLUMNS, KEYS, Inputs
from benchmarks.peer import Peer, Result


class Merge(Peer):
    def prepare(self, inputs: Inputs, out: Path) -> None:
        for day in inputs.dates:
            write_deltalake(out / "table", _rows(day.state), mode="append", partition_by=["date"])
        self._before = set(DeltaTable(out / "table").file_uris())

    def run(self, inputs: Inputs, out: Path) -> None:
        same = " AND ".join(f"old.{name} = new.{name}" for name in ("date", *KEYS))
        for day in inputs.dates:
            merge = DeltaTable(out / "table").merge(
                _rows(day.snapshot),
                f"old.date = '{day.day}' AND {same}",
                source_alias="new",
                target_alias="old",
                streamed_exec=False,
            )
            merge = merge.when_matched_update_all("new.update_id > old.update_id")
            merge.when_not_matched_insert_all().execute()

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        files = [uri.removeprefix("file://") for uri in DeltaTable(out / "table").file_uris()]
        written = sum(Path(file).stat().st_size for file in files if file not in self._before)
        return Result(tuple(files), bytes_written=written)


def _rows(files: tuple[str, ...]) -> pa.Table:
    """The date as text: Delta keeps the values of partitions as text in its log anyway."""
    rows = pa.concat_tables([pq.ParquetFile(file).read(columns=list(COLUMNS)) for file in files])
    return rows.set_column(rows.schema.get_field_index("date"), "date", rows["date"].cast(pa.string()))
