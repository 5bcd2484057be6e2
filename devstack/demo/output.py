"""Writes the demo's output: tables as plain text, and a line that shows the progress."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dedup_clone.state.ledger import LedgerRecord
from devstack.producer.feeds import KEYS, SNAPSHOT_ID, VALUE

WIDTH = 100  # characters
REPEAT_AFTER_S = 15.0  # without a terminal, an unchanged text is printed again only after this time
LONGEST_PHASES = 5
MAX_ROWS_SHOWN = 30
# How a publish has changed a row. Kept-missing: it stays, but its key is missing in the snapshot.
CHANGED, NEW, SURVIVOR, EQUAL = KINDS = ("changed", "new", "kept-missing", "equal")


class Terminal:
    """Standard output. A terminal shows only the newest progress; other outputs get each new one as a line."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._started = time.monotonic()
        self._shown = ""
        self._shown_at = 0.0

    def line(self, *lines: str) -> None:
        """Print lines, in place of the progress."""
        print("\r\N{ESCAPE}[K" if self._is_terminal else "", end="")
        print(*lines, sep="\n", flush=True)

    def progress(self, text: str) -> None:
        now = time.monotonic()
        line = f"{now - self._started:6.0f} s  {text}"
        if self._is_terminal:
            print(f"\r\N{ESCAPE}[K{line[:WIDTH]}", end="", flush=True)
        elif text != self._shown or now - self._shown_at > REPEAT_AFTER_S:
            print(line, flush=True)
            self._shown, self._shown_at = text, now


def _columns(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, indented by two. Each column is as wide as its widest cell."""
    body = [heads, *lines]
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in body
    ]


def publishes(records: Sequence[LedgerRecord]) -> list[str]:
    """For each publish a line with arrival, lag and numbers of rows, and one with the seconds of its longest phases."""
    heads = ("feed", "snapshot", "arrived (UTC)", "lag", "rows", "new", "changed", "kept")
    cells = [
        (
            record.feed,
            str(record.snapshot_id),
            f"{record.arrived_at:%Y-%m-%d %H:%M:%S}",
            f"{record.lag_s or 0:.1f} s",
            # A publish that has not compared values does not know how many rows it has changed.
            *("?" if n is None else f"{n:,}" for n in (record.rows, record.new_rows, record.changed_rows)),
            f"{record.kept_rows:,}",
        )
        for record in records
    ]
    head, *lines = _columns(heads, cells)
    shown = [head]
    for record, line in zip(records, lines, strict=True):
        longest = sorted(record.phases.items(), key=lambda phase: -phase[1])[:LONGEST_PHASES]
        shown += [line, "      " + "; ".join(f"{name} {seconds:.1f}" for name, seconds in longest)]
    return shown


def compared_rows(before: pa.Table, after: pa.Table, snapshot_id: int) -> list[str]:
    """Row by row what the publish of a snapshot has done to the worked example. The last line counts each kind."""
    cells = list(_cells(before, after, snapshot_id))
    lines = _columns((*KEYS, VALUE, SNAPSHOT_ID, "kind"), cells[:MAX_ROWS_SHOWN])
    if len(cells) > MAX_ROWS_SHOWN:
        lines.append(f"  … and {len(cells) - MAX_ROWS_SHOWN} more rows")
    counts = ", ".join(f"{sum(row[-1] == kind for row in cells)} {kind}" for kind in KINDS)
    return [*lines, f"  {counts}"]


def _cells(before: pa.Table, after: pa.Table, snapshot_id: int) -> Iterator[tuple[str, ...]]:
    """The cells of each row, in the order of the keys."""
    earlier = _by_key(before)
    for key, row in sorted(_by_key(after).items()):
        old = earlier.get(key)
        changes = (_change(row[name] if old is None else old[name], row[name]) for name in (VALUE, SNAPSHOT_ID))
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
