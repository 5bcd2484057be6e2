"""The anti-join of Polars' streaming engine, date by date."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.inputs import COLUMNS, KEYS, Inputs
from benchmarks.peers.survivors import DateByDate


class AntiJoin(DateByDate):
    def run(self, inputs: Inputs, out: Path) -> None:
        for day in inputs.dates:
            old, new = _rows(day.state), _rows(day.snapshot)
            rows = old.join(new.select(KEYS), on=KEYS, how="anti")
            table = rows if self.survivors_only else pl.concat([new, rows])
            target = out / f"{day.day}.parquet"
            table.sink_parquet(target, compression="zstd", compression_level=1, engine="streaming")


def _rows(files: tuple[str, ...]) -> pl.LazyFrame:
    return pl.scan_parquet(list(files), hive_partitioning=False).select(COLUMNS)
