"""The runbook's table of which checks run before the swap says what the code does."""

from __future__ import annotations

from dedup_clone.contract.kind import Kind
from dedup_clone.publish import check
from tests.docs.pages import DOCS

HEAD = "| Checks, in the order of the next table | publish, replay | rollback | bootstrap | rebuild | erase |"
KINDS = (Kind.PUBLISH, Kind.ROLLBACK, Kind.BOOTSTRAP, Kind.REBUILD, Kind.ERASE)
ROWS = {
    "tables": check.check_surroundings,
    "rows": check.check_rows,
    "generation": check.check_manifest,
    "the feed's own": check.check_own_sql,
    "the existing table": check.check_takeover,
}


def test_the_runbook_says_which_checks_run_for_which_kind() -> None:
    table = (DOCS / "runbook.md").read_text().split(HEAD)[1].split("\n\n")[0].strip().splitlines()[1:]
    written = {}
    for line in table:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        written[name.split(":")[0]] = [cell.split(",")[0] == "yes" for cell in cells]
    assert written == {name: [one in check.CHECKS[kind] for kind in KINDS] for name, one in ROWS.items()}


def test_each_kind_that_makes_a_generation_checks_form_and_parent() -> None:
    """A retirement makes none. Each other kind has one check of the tables' form, and one of what the swap replaces."""
    forms = {check.check_form, check.check_restored_form, check.check_rebuilt_form}
    parents = {check.check_target, check.check_target_taken_over}
    assert set(check.CHECKS) == set(Kind) - {Kind.RETIRE}
    for checks in check.CHECKS.values():
        assert (len(forms & set(checks)), len(parents & set(checks))) == (1, 1)
