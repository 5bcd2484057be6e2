"""Makes the new table with the anti-join of Polars' streaming engine, date by date."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.input_files import COLUMNS, KEYS, InputFiles
from benchmarks.peers.date_by_date import DateByDate


class AntiJoin(DateByDate):
    def run(self, inputs: InputFiles, out: Path) -> None:
        for date_files in inputs.dates:
            old, new = _rows(date_files.parent), _rows(date_files.snapshot)
            survivors = old.join(new.select(KEYS), on=KEYS, how="anti")
            table = survivors if self.survivors_only else pl.concat([new, survivors])
            target = out / f"{date_files.day}.parquet"
            table.sink_parquet(target, compression="zstd", compression_level=1, engine="streaming")


def _rows(files: tuple[str, ...]) -> pl.LazyFrame:
    return pl.scan_parquet(list(files), hive_partitioning=False).select(COLUMNS)
