"""The runbook's table of which checks run before the swap says what the code does, and it names every error."""

from __future__ import annotations

import pytest

from dedup_clone.contract import errors
from dedup_clone.contract.attempt import Kind
from dedup_clone.publish import check
from tests.docs.pages import DOCS

HEAD = "| Run | Skips these checks |"
KINDS = {
    "publish": Kind.PUBLISH,
    "rollback": Kind.ROLLBACK,
    "bootstrap": Kind.BOOTSTRAP,
    "rebuild": Kind.REBUILD,
    "erase": Kind.ERASE,
}
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
        run: [name for name, one in CHECKS.items() if one not in check.CHECKS[kind]] for run, kind in KINDS.items()
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
