"""Links between the pages of the documentation lead somewhere, and so do those of alerts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup_clone.freshness.incident import IncidentKind
from tests.docs.pages import DOCS, PAGES, ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """The anchors of a page: those that GitHub gives its headings, and those that it names itself."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = re.findall(r'^(?:\| |- )?<a id="(\w+)"></a>', text, re.MULTILINE)
    return {*named, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


def test_each_incident_and_no_other_has_a_heading_in_the_runbook_to_which_its_alert_links() -> None:
    runbook = DOCS / "runbook.md"
    alerts = runbook.read_text().split("\n## Alerts\n", 1)[1].split("\n## ", 1)[0]
    headings = re.findall(r"^### (.+)$", alerts, re.MULTILINE)
    assert sorted(headings) == sorted(IncidentKind)
    assert set(IncidentKind) <= anchors(runbook)
