"""Formats the demo's output: tables as plain text, and a line that shows the progress."""

import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from devstack.demo.before_and_after import ComparedRow, Row, RowChange
from devstack.demo.ledger_record import LedgerEntry
from devstack.producer.demo_feeds import KEYS, SNAPSHOT_ID, VALUE

WIDTH = 100  # characters
_INDENT = " " * 6
MAX_ROWS_SHOWN = 30
# Without a terminal, an unchanged text is printed again only after this time.
REPEAT_AFTER_S = 15.0


def columns(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, indented by two. Each column is as wide as its widest cell."""
    body = [list(line) for line in lines]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *body, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in [list(heads), *body]
    ]


def plain_rows(rows: Sequence[Row]) -> list[str]:
    """The lines of a table with these rows, or with the first MAX_ROWS_SHOWN of them."""
    cells = [(*map(str, row.key), str(row.value), str(row.snapshot_id)) for row in rows[:MAX_ROWS_SHOWN]]
    return columns((*KEYS, VALUE, SNAPSHOT_ID), cells) + _lines_for_hidden_rows(len(rows))


def compared_rows(rows: Sequence[ComparedRow]) -> list[str]:
    """The lines of a table that shows how each row has changed. The last line has the number of rows of each kind."""
    cells = [
        (
            *map(str, row.after.key),
            _change(row.before.value if row.before else None, row.after.value),
            _change(row.before.snapshot_id if row.before else None, row.after.snapshot_id),
            row.change,
        )
        for row in rows[:MAX_ROWS_SHOWN]
    ]
    lines = columns((*KEYS, VALUE, SNAPSHOT_ID, "kind"), cells) + _lines_for_hidden_rows(len(rows))
    counts = ", ".join(f"{sum(row.change == kind for row in rows)} {kind}" for kind in RowChange)
    return [*lines, f"  {counts}"]


def _change(before: int | None, after: int) -> str:
    return str(after) if before is None or before == after else f"{before} -> {after}"


def _lines_for_hidden_rows(row_count: int) -> list[str]:
    return [f"  … and {row_count - MAX_ROWS_SHOWN} more rows"] if row_count > MAX_ROWS_SHOWN else []


def publishes(published: Sequence[LedgerEntry]) -> list[str]:
    """For each publish a line with arrival, lag and numbers of rows, then the seconds of its phases, longest first."""
    heads = ("feed", "snapshot", "arrived (UTC)", "lag", "rows", "new", "changed", "kept")
    cells = [
        (
            entry.feed,
            str(entry.snapshot_id),
            f"{entry.arrived_at:%Y-%m-%d %H:%M:%S}",
            f"{entry.lag_s:.1f} s",
            *map(_count, (entry.rows, entry.new_rows, entry.changed_rows, entry.kept_rows)),
        )
        for entry in published
    ]
    head, *lines = columns(heads, cells)
    shown = [head]
    for entry, line in zip(published, lines, strict=True):
        shown += [line, *_phases(entry.phases)]
    return shown


def _count(count: int | None) -> str:
    """A number of rows; `?` for None, as for changed rows of a publish that has not compared values."""
    return "?" if count is None else f"{count:,}"


def _phases(seconds: Mapping[str, float]) -> list[str]:
    """The lines that show the seconds of each phase, longest phase first."""
    longest_first = sorted(seconds.items(), key=lambda phase: -phase[1])
    # A phase's name and seconds stay on one line, because textwrap does not break at a no-break space.
    text = "; ".join(f"{name}\N{NO-BREAK SPACE}{phase_s:.1f}" for name, phase_s in longest_first)
    lines = textwrap.wrap(text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


class Progress:
    """The line that shows the progress.

    A terminal shows only its newest text; other outputs get each new text as a line.
    """

    def __init__(self, output: TextIO = sys.stdout) -> None:
        self._output = output
        self._is_terminal = output.isatty()
        self._shown = ""
        self._printed_at = 0.0
        self._started = time.monotonic()

    def update(self, text: str) -> None:
        if self._is_terminal:
            line = f"{time.monotonic() - self._started:6.0f} s  {text}"[:WIDTH]
            self._output.write("\r" + line.ljust(len(self._shown)))
            self._shown = line
        elif text != self._shown or time.monotonic() - self._printed_at > REPEAT_AFTER_S:
            self._output.write(f"{time.monotonic() - self._started:6.0f} s  {text}\n")
            self._shown, self._printed_at = text, time.monotonic()
        self._output.flush()

    def clear(self) -> None:
        """Remove the line from the terminal, before other lines are printed."""
        if self._is_terminal and self._shown:
            self._output.write("\r" + " " * len(self._shown) + "\r")
            self._shown = ""
            self._output.flush()
