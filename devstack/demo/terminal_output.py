"""Formats the demo's output: tables as plain text, and a line that shows the progress."""

import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from dedup_clone.state.ledger import LedgerRecord

WIDTH = 100  # characters
_INDENT = " " * 6
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


def publishes(published: Sequence[LedgerRecord]) -> list[str]:
    """For each publish a line with arrival, lag and numbers of rows, then the seconds of its phases, longest first."""
    heads = ("feed", "snapshot", "arrived (UTC)", "lag", "rows", "new", "changed", "kept")
    cells = [
        (
            entry.feed,
            str(entry.snapshot_id),
            f"{entry.arrived_at:%Y-%m-%d %H:%M:%S}",
            f"{entry.lag_s or 0:.1f} s",
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
