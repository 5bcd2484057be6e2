"""Describes how the rows of two generations differ, as far as their manifests tell. Reads no row."""

from __future__ import annotations

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DateEntry, DateOutcome, Manifest
from dedup_clone.publish.services import Services

MANIFESTS_READ = 50  # at most, from one generation back to the other
NOT_KNOWN = "not known without reading rows"


def describe_difference(live: DateEntry | None, restored: DateEntry | None, *, values_are_comparable: bool) -> str:
    """How a date's rows in the generation to restore differ from its rows in the live one, in a few words.

    `live`, `restored`: the date in these generations; None if it is absent. `values_are_comparable`: whether both have
    the same columns. Fingerprints cover only rows of the newest snapshot, so they are compared only if neither
    generation has survivors on the date.
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
        return f"same keys; whether values differ is {NOT_KNOWN}"
    if contents[0] != contents[1]:
        return "same keys, other values"
    return "same keys and values, but for update ids or files"


def changes_between(services: Services, live: Manifest, restored: Manifest) -> str:
    """A text with upper bounds of the rows that differ: the sums over the publishes between the two generations."""
    between, forward = _publishes_since(services, live, restored), False
    if between is None:
        between, forward = _publishes_since(services, restored, live), True
    if between is None:
        return f"How many rows get other values is {NOT_KNOWN}."
    new = sum(e.new_keys for m in between for e in m.dates)
    # A plan that compares no values cannot say how many changed. A date that was copied forward has no change.
    counts = [e.changed for m in between for e in m.dates if e.plan is not DateOutcome.COPIED_FORWARD]
    changed = NOT_KNOWN if None in counts else f"at most {sum(c or 0 for c in counts)}"
    names = ", ".join(str(m.generation) for m in reversed(between)) or "none"
    return (
        f"Generations that are {'added' if forward else 'taken back'}: {names}. At most {new} rows "
        f"{'appear' if forward else 'vanish'}, whose keys were new in these; rows that get other values: {changed}."
    )


def _publishes_since(services: Services, newer: Manifest, older: Manifest) -> list[Manifest] | None:
    """The manifests of the publishes that lead from `older` to `newer`, newest first, without rollbacks.

    A rollback counts as the generation that it restores. None if `newer` does not build on `older`, or if more than
    MANIFESTS_READ manifests are between the two or one of them cannot be read.
    """
    found: list[Manifest] = []
    origin, manifest = older.generation if older.restores is None else older.restores, newer
    for _ in range(MANIFESTS_READ + 1):
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
            return None  # the manifest is gone or damaged
    return None
