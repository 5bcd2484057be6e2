"""docs/bigquery-rules.md: each rule names tests and probes that exist, or says why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENT = REPOSITORY / "docs" / "bigquery-rules.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in DOCUMENT.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| Rule |", "| --- |"))
]


def names(folder: str, pattern: str) -> set[str]:
    files = (REPOSITORY / folder).rglob("*.py")
    return {name for file in files for name in re.findall(pattern, file.read_text(), re.MULTILINE)}


TESTS = names("tests", r"^def (test_\w+)\(")
PROBES = names("deploy/probe", r'^    "([a-z-]+)",$')


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_rule_names_what_shows_it(row: list[str]) -> None:
    _, _, shown_by = row
    named = re.findall(r"`(probe [a-z-]+|test_\w+)`", shown_by)
    if shown_by.startswith("None: "):
        assert not named
        return
    assert named
    known = TESTS | {f"probe {probe}" for probe in PROBES}
    assert [name for name in named if name not in known] == []


def test_every_probe_is_in_the_table() -> None:
    assert [probe for probe in sorted(PROBES) if f"`probe {probe}`" not in DOCUMENT.read_text()] == []
