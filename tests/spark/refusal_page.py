"""The messages that docs/data-contract.md promises, as patterns."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "data-contract.md"


def promised_messages() -> list[re.Pattern[str]]:
    """Of the table of refusals: what is in brackets, numbers and `…` stand for anything."""
    table = _PAGE.read_text(encoding="utf-8").split("## Refusals", 1)[1].split("\n## ", 1)[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    return [re.compile(_pattern(text)) for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


def _pattern(text: str) -> str:
    parts = re.split(r"(\[[^\]]*\]|…|[0-9]+)", text)
    return "".join(re.escape(part) if number % 2 == 0 else _anything(part) for number, part in enumerate(parts))


def _anything(part: str) -> str:
    return r"\[.*?\]" if part.startswith("[") else r"[0-9]+" if part.isdigit() else ".*?"
