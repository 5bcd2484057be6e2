"""Shows row by row what a publish has done to the table of the worked example."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from devstack.demo.terminal_output import columns
from devstack.producer.feeds import KEYS, SNAPSHOT_ID, VALUE

MAX_ROWS_SHOWN = 30
# How a publish has changed a row. Kept-missing: it stays, but its key is missing in the snapshot.
CHANGED, NEW, SURVIVOR, EQUAL = KINDS = ("changed", "new", "kept-missing", "equal")


def compared_rows(before: pa.Table, after: pa.Table, snapshot_id: int) -> list[str]:
    """The lines of a table of the rows after the publish of `snapshot_id`. The last line has the rows of each kind."""
    cells = list(_cells(before, after, snapshot_id))
    lines = columns((*KEYS, VALUE, SNAPSHOT_ID, "kind"), cells[:MAX_ROWS_SHOWN])
    if len(cells) > MAX_ROWS_SHOWN:
        lines.append(f"  … and {len(cells) - MAX_ROWS_SHOWN} more rows")
    counts = ", ".join(f"{sum(row[-1] == kind for row in cells)} {kind}" for kind in KINDS)
    return [*lines, f"  {counts}"]


def _cells(before: pa.Table, after: pa.Table, snapshot_id: int) -> Iterator[tuple[str, ...]]:
    """The cells of each row, in the order of the keys."""
    earlier = _by_key(before)
    for key, row in sorted(_by_key(after).items()):
        old = earlier.get(key)
        changes = (str(row[name]) if old is None else _change(old[name], row[name]) for name in (VALUE, SNAPSHOT_ID))
        yield (*map(str, key), *changes, _kind(old, row, snapshot_id))


def _by_key(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[key] for key in KEYS): row for row in table.to_pylist()}


def _kind(old: dict[str, Any] | None, row: dict[str, Any], snapshot_id: int) -> str:
    if old is None:
        return NEW
    if row[SNAPSHOT_ID] != snapshot_id:
        return SURVIVOR
    return EQUAL if old[VALUE] == row[VALUE] else CHANGED


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} -> {after}"
