"""Makes Markdown tables, and writes them into a file of docs/ between two marking comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column is left-aligned, and all others right-aligned."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_part(path: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError unless each is there once."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    content = path.read_text()
    if content.count(begin) != 1 or content.count(end) != 1:
        raise ValueError(f"File [{path}] has no pair of markers [{begin}] [{end}]: put them where the table belongs.")
    before, rest = content.split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")
