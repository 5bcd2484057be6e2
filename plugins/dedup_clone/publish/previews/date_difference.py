"""Describes how the rows of two generations differ, as far as their manifests tell. Reads no row."""

from __future__ import annotations

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DateEntry, DateOutcome, Manifest
from dedup_clone.publish.services import Services

MANIFESTS_READ = 50
NOT_KNOWN = "not known without reading rows"


def describe_difference(live: DateEntry | None, restored: DateEntry | None, *, values_are_comparable: bool) -> str:
    """How the date's rows then differ from those now.

    The fingerprints are of the newest snapshot's rows, so they describe the date only if it has no survivors.
    `values_are_comparable`: whether both generations have the same columns.
    """
    if live is None:
        return "all its rows appear"
    if restored is None:
        return "all its rows vanish"
    if live.rows != restored.rows:
        return "other keys"
    if live.survivors or restored.survivors or live.key_fingerprint is None or restored.key_fingerprint is None:
        return NOT_KNOWN
    if live.key_fingerprint != restored.key_fingerprint:
        return "other keys"
    contents = (live.content_fingerprint, restored.content_fingerprint)
    if None in contents or not values_are_comparable:
        return f"same keys; whether other values is {NOT_KNOWN}"
    if contents[0] != contents[1]:
        return "same keys, other values"
    return "same keys and values, but for update ids or files"


def changes_between(services: Services, live: Manifest, restored: Manifest) -> str:
    """A sentence with the most rows that can differ: the sums of the publishes between the two generations."""
    later, forward = _publishes_since(services, live, restored), False
    if later is None:
        later, forward = _publishes_since(services, restored, live), True
    if later is None:
        return f"How many rows get other values is {NOT_KNOWN}."
    new = sum(e.new_keys for m in later for e in m.dates)
    # A plan that compares no values cannot say how many changed. A date that was copied forward has no change.
    counts = [e.changed for m in later for e in m.dates if e.plan is not DateOutcome.COPIED_FORWARD]
    changed = NOT_KNOWN if None in counts else f"at most {sum(c or 0 for c in counts)}"
    names = ", ".join(str(m.generation) for m in reversed(later)) or "none"
    return (
        f"Generations in between: {names}. At most {new} rows {'appear' if forward else 'vanish'} as "
        f"keys that are new in them; rows that get other values: {changed}."
    )


def _publishes_since(services: Services, newer: Manifest, older: Manifest) -> list[Manifest] | None:
    """The manifests that lead from `older` to `newer`, newest first; None if `newer` does not build on `older`.

    A rollback's own content is that of the generation that it restores.
    """
    found: list[Manifest] = []
    origin, manifest = older.generation if older.restores is None else older.restores, newer
    for _ in range(MANIFESTS_READ):
        if manifest.generation in (older.generation, origin):
            return found
        before = manifest.parent if manifest.restores is None else manifest.restores
        if manifest.restores is None:
            found.append(manifest)
        if before is None:
            return None
        try:
            manifest = services.manifests.read(before)
        except ContractViolation:
            return None  # somebody deleted the manifest
    return None
