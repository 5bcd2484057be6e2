"""Describes which rows of a table a DML statement, or a merge of streamed changes, removes and adds."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class RowChanges:
    """What a DML statement, or a merge of streamed changes (change_merge.py), changes in a table.

    `removed`: the name of a temporary table with the ids of the deleted rows and of the old versions of updated rows.
    `new_rows`: the inserted rows and the new versions of updated rows. `counts`: the API's `dmlStats`, by kind of
    change; empty for a merge of streamed changes.
    """

    removed: str
    new_rows: pa.Table
    counts: dict[str, int]
