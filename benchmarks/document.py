"""Puts tables into a page of docs between two markers, and leaves the rest of the page alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_part(page: Path, name: str, text: str) -> None:
    """Raises ValueError when the page lacks `<!-- NAME -->` and `<!-- /NAME -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    content = page.read_text()
    if content.count(begin) != 1 or content.count(end) != 1:
        raise ValueError(f"Page [{page}] has no pair of markers [{begin}] [{end}]: put them where the table belongs.")
    before, rest = content.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")
