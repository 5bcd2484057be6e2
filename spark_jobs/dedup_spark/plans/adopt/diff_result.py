"""What the newest delivery changes on a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dedup_spark.comparison.duplicate_keys import ResolvedDuplicates
from dedup_spark.comparison.selected_rows import Columns, SelectedRows
from dedup_spark.fingerprints.buckets import BucketFingerprints

EXAMPLES = 3
_BY_FILE = ("surviving", "decoded", "removed")
_LISTS = ("same_id_survivors", "surplus", "new_examples", "changed_examples", "survivor_examples")


@dataclass(frozen=True)
class DecodedRows:
    """Survivors whose columns were decoded already, so that their file need not be read again."""

    key_columns: Columns
    update_ids: npt.NDArray[np.int64]
    value_columns: Columns


@dataclass
class DiffResult:
    """What the newest delivery N changes on one date. Row numbers are grouped by (source number, file number).

    `surviving`: rows that become survivors. `decoded`: the `surviving` rows whose values were read already.
    `same_id_survivors`: the `surviving` rows with N's own update_id; N then corrects a snapshot. `removed`: survivors
    of the parent that are no longer survivors. `surplus`: N's surplus rows. `older_surplus_rows`: how many surplus
    rows the older deliveries have, by source. `unresolved`: how many surplus rows could not be told from the row of
    their key that counts; if there are any, another plan has to write the date. `fingerprints`: of N's distinct keys
    and, once all rows are compared, of `same_id_survivors`. `changed`: None if values are not compared.
    """

    fingerprints: BucketFingerprints
    buckets: int
    differing_buckets: int
    new_keys: int = 0
    changed: int | None = None
    ranked: bool = False
    older_surplus_rows: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    surviving: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    decoded: defaultdict[tuple[int, int], list[DecodedRows]] = field(default_factory=lambda: defaultdict(list))
    same_id_survivors: list[SelectedRows] = field(default_factory=list)
    removed: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    surplus: list[SelectedRows] = field(default_factory=list)
    unresolved: int = 0
    new_examples: list[Columns] = field(default_factory=list)
    changed_examples: list[Columns] = field(default_factory=list)
    survivor_examples: list[Columns] = field(default_factory=list)

    @property
    def surplus_rows(self) -> int:
        return sum(map(len, self.surplus))

    def surplus_in(self, file: int) -> npt.NDArray[np.int64]:
        """Return the row numbers of the surplus rows in N's file of this number, ascending."""
        rows = [part.row_numbers[part.file_numbers == file] for part in self.surplus]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    def without_surplus(self, newest: SelectedRows) -> SelectedRows:
        """Return the rows of N without its surplus rows."""
        counts = np.ones(len(newest), dtype=bool)
        for file in np.unique(newest.file_numbers):
            of_file = np.flatnonzero(newest.file_numbers == file)
            counts[of_file[np.isin(newest.row_numbers[of_file], self.surplus_in(int(file)))]] = False
        return newest.take(np.flatnonzero(counts))

    def add(self, other: DiffResult) -> None:
        """Add what differs in other buckets, but not its fingerprints."""
        self.new_keys += other.new_keys
        self.changed = None if self.changed is None or other.changed is None else self.changed + other.changed
        self.ranked |= other.ranked
        self.unresolved += other.unresolved
        for source, rows in other.older_surplus_rows.items():
            self.older_surplus_rows[source] += rows
        for name in _BY_FILE:
            for file, parts in getattr(other, name).items():
                getattr(self, name)[file] += parts
        for name in _LISTS:
            getattr(self, name).extend(getattr(other, name))

    def add_duplicates(self, resolved: ResolvedDuplicates) -> None:
        """Add N's surplus rows."""
        if len(resolved.surplus):
            self.surplus.append(resolved.surplus)
            self.unresolved += 0 if resolved.is_exact else len(resolved.surplus)
