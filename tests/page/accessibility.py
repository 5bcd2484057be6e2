"""Runs axe, which checks accessibility rules, on a page."""

from __future__ import annotations

from pathlib import Path

from testkit.browser import Page

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
LOOK = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.flatMap(
    (v) => v.nodes.map((n) => `${v.impact}: ${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`)))"""


def faults(page: Page) -> list[str]:
    """All violations, of every impact, each with its element and how to fix it."""
    page.value(AXE.read_text() + "; true")
    found: list[str] = page.value(LOOK)
    return found
