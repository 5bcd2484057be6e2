"""What a mutation changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Changes:
    """`removed` names a temporary table of the rows that go (updated ones too), `new_rows` those that come."""

    removed: str
    new_rows: pa.Table
    counts: dict[str, int]
