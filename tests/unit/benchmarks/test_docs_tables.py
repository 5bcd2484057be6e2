"""Markdown tables, and their place in pages of docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.docs_tables import replace_part, table


def test_only_the_part_between_its_markers_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n")
    replace_part(page, "a", "new")
    replace_part(page, "a", "newer")
    assert page.read_text() == ("before\n<!-- a -->\n\nnewer\n\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n")


def test_a_page_without_the_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no markers\n")
    with pytest.raises(ValueError, match="no pair of markers"):
        replace_part(page, "a", "new")


def test_a_table_has_heads_and_rows() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --: |\n| 1 | 2 |"
