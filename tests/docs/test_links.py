"""Links between the pages of the documentation lead somewhere, and the runbook says which checks a run skips."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup_clone.contract import errors
from dedup_clone.contract.attempt import Kind
from dedup_clone.freshness.incident import IncidentKind
from dedup_clone.publish import check
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


def test_the_index_names_every_page() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {*DOCS.glob("*.md"), DOCS / "adr" / "README.md"} - {DOCS / "README.md"}
    assert pages <= linked


def test_the_site_has_every_page_in_its_navigation() -> None:
    named = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} <= named


def test_no_diagram_has_a_semicolon_which_ends_a_statement_of_mermaid() -> None:
    diagrams = [text for page in PAGES for text in re.findall(r"^```mermaid\n(.*?)^```", page.read_text(), re.S | re.M)]
    assert diagrams
    assert not [line for text in diagrams for line in text.splitlines() if ";" in line]


def test_each_incident_and_no_other_has_a_heading_in_the_runbook_to_which_its_alert_links() -> None:
    runbook = DOCS / "runbook.md"
    alerts = runbook.read_text().split("\n## Alerts\n", 1)[1].split("\n## ", 1)[0]
    headings = re.findall(r"^### (.+)$", alerts, re.MULTILINE)
    assert sorted(headings) == sorted(IncidentKind)
    assert set(IncidentKind) <= anchors(runbook)


HEAD = "| Run | Skips these checks |"
CHECKS = {
    "tables": check.check_surroundings,
    "rows": check.check_rows,
    "generation": check.check_manifest,
    "own": check.check_own_sql,
    "existing table": check.check_takeover,
}


def names(cell: str) -> list[str]:
    return [name.strip() for name in cell.split(",") if name.strip()]


def test_the_runbook_says_which_checks_each_kind_skips() -> None:
    table = (DOCS / "runbook.md").read_text().split(HEAD)[1].split("\n\n")[0].strip().splitlines()[1:]
    written = {}
    for line in table:
        runs, skipped = line.strip("|").split("|")
        written |= {run: names(skipped) for run in names(runs)}
    assert written.pop("replay") == written["publish"]
    assert written == {
        str(kind): [name for name, one in CHECKS.items() if one not in check.CHECKS[kind]]
        for kind in Kind
        if kind is not Kind.RETIRE
    }


@pytest.mark.parametrize("error", [name for name in vars(errors) if name[0].isupper() and name != "DedupCloneError"])
def test_the_runbook_names_each_error(error: str) -> None:
    section = (DOCS / "runbook.md").read_text().split("\n## Errors\n", 1)[1]
    assert f"`{error}`" in section


def test_each_kind_that_makes_a_generation_checks_form_and_parent() -> None:
    """A retirement makes none. Each other kind has one check of the tables' form, and one of what the swap replaces."""
    forms = {check.check_form, check.check_restored_form, check.check_rebuilt_form}
    parents = {check.check_target, check.check_target_taken_over}
    assert set(check.CHECKS) == set(Kind) - {Kind.RETIRE}
    for checks in check.CHECKS.values():
        assert (len(forms & set(checks)), len(parents & set(checks))) == (1, 1)
