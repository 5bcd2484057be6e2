"""Counts of rows by how the arriving deliveries differ from the parent."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class RowCounts:
    """Counts of rows of one or several dates; a count that a peer does not compute is None.

    `new`: keys that the parent lacks. `changed`: keys of the parent whose row has other values afterwards. `missing`:
    keys of the parent's newest snapshot that the newest delivery lacks. `survivors`: rows of the new table whose key
    the newest delivery lacks. `duplicates`: rows of a delivery beyond the first of their key.
    """

    new: int | None = 0
    changed: int | None = 0
    missing: int | None = 0
    survivors: int | None = 0
    duplicates: int | None = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        """The sum of each count; None if one of the two is None."""
        pairs = zip(self._values(), other._values(), strict=True)
        return RowCounts(*(None if own is None or added is None else own + added for own, added in pairs))

    def agrees_with(self, expected: RowCounts) -> bool:
        """Whether every count that is not None equals the expected one."""
        return all(own in (None, right) for own, right in zip(self._values(), expected._values(), strict=True))

    def _values(self) -> list[int | None]:
        return [getattr(self, field.name) for field in fields(self)]
