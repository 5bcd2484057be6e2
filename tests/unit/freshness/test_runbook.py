"""The runbook has a heading for every incident and a row for every check, and for nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup_clone.checks.share_checks import SHARE_CHECKS
from dedup_clone.freshness.incident import IncidentKind
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX

REPOSITORY = Path(__file__).parents[3]
LIBRARY = REPOSITORY / "plugins" / "dedup_clone"
RUNBOOK = (REPOSITORY / "docs" / "runbook.md").read_text()
SOURCES = [*sorted((LIBRARY / "checks").glob("*.py")), *sorted((LIBRARY / "publish").rglob("*.py"))]
CHECK_NAME = re.compile(r"[a-z]+(_[a-z]+)*")


def calls(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Name of each called function, and its arguments that are texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            yield name, values


def check_names() -> set[str]:
    """Names of checks: each is passed where a result is made, or to a parameter `check`."""
    trees = [ast.parse(path.read_text()) for path in SOURCES]
    takes_a_name = {"make_result", "CheckResult"} | {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "check" in [a.arg for a in node.args.args]
    }
    named = {v[0] for tree in trees for name, v in calls(tree) if name in takes_a_name and v}
    fixed = {name for name in named if CHECK_NAME.fullmatch(name)} | {check.name for check in SHARE_CHECKS}
    return fixed | {f"{SQL_CHECK_PREFIX}NAME", f"{SQL_CHECK_PREFIX}unique_across_dates"}


def found_in(section: str, pattern: str) -> list[str]:
    """What the pattern finds below a second-level heading."""
    text = RUNBOOK.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(pattern, text, re.MULTILINE)


CHECKS = found_in("Checks", r'^\| (?:<a id="\w+"></a>)?`(\w+)` \| \S')


def test_the_checks_are_found_in_the_code() -> None:
    assert {"staging_rows", "target_rows", "new_share", "keys_unique", "target_policies"} <= check_names()


def test_each_incident_has_a_heading_of_its_label_and_an_anchor_of_its_kind() -> None:
    found = found_in("Alerts", r"^### (.+)$")
    assert sorted(heading[0].lower() + heading[1:] for heading in found) == sorted(kind.label for kind in IncidentKind)
    assert all(kind in found or f'<a id="{kind}"></a>\n\n### ' in RUNBOOK for kind in IncidentKind)


@pytest.mark.parametrize("name", sorted(check_names()))
def test_each_check_has_a_row(name: str) -> None:
    assert CHECKS.count(name) == 1


def test_no_row_is_left_of_a_check_that_is_gone() -> None:
    assert set(CHECKS) - check_names() == set()


def test_each_heading_says_what_it_means_and_what_to_do() -> None:
    """The page says once what readers see where an entry does not say it."""
    assert "Where an entry does not say what readers see" in RUNBOOK
    entries = re.split(r"^### ", RUNBOOK.split("\n## Alerts\n", 1)[1], flags=re.MULTILINE)[1:]
    lacking = [entry.splitlines()[0] for entry in entries if not all(word in entry for word in ("**Means**", "**Do**"))]
    assert lacking == []
