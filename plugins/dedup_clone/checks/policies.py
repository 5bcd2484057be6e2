"""Row and column policies: target has what staging has, so nobody may publish a staging that lost them."""

from __future__ import annotations

from dedup_clone.checks.verdicts import Verdict, listed, verdict
from dedup_clone.settings.feed import PolicySettings
from dedup_clone.warehouse.facts import Policies


def policies_present(check: str, found: Policies, declared: PolicySettings) -> Verdict:
    """Every declared policy is on the table; others may be there too."""
    row = sorted(set(declared.row_access) - set(found.row_access))
    tags = sorted(f"{c}: {tag}" for c, tag in declared.column_tags.items() if found.column_tags.get(c) != tag)
    expected = [*declared.row_access, *declared.column_tags]
    return verdict(
        check,
        not row and not tags,
        found=f"missing: row access policies {listed(row)}; column tags {listed(tags)}"
        if row or tags
        else "all present",
        expected=f"policies {listed(expected)} as the feed declares them" if expected else "none declared",
        next_step="let whoever governs the data put them on staging again; then clear the run from load_staging.",
    )
