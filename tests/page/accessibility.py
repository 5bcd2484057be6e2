"""Faults that axe finds in a page: the rules that people with a screen reader, a keyboard or weak eyes depend on."""

from __future__ import annotations

from pathlib import Path

from tests.page.browser import Page

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
LOOK = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.flatMap(
    (v) => v.nodes.map((n) => `${v.impact}: ${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`)))"""


def faults(page: Page) -> list[str]:
    """All of them, the mild ones too, each with the element and what to do."""
    page.value(AXE.read_text() + "; true")
    found: list[str] = page.value(LOOK)
    return found
