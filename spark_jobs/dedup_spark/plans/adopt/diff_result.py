"""Records what the newest delivery changes on a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dedup_spark.comparison.duplicate_keys import ResolvedDuplicates
from dedup_spark.comparison.selected_rows import Columns, SelectedRows
from dedup_spark.fingerprints.buckets import BucketFingerprints

# Examples of keys for each kind of difference.
MAX_EXAMPLES = 3
_FIELDS_BY_FILE = ("surviving", "decoded", "removed")
_LIST_FIELDS = ("same_id_survivors", "surplus", "new_examples", "changed_examples", "survivor_examples")


@dataclass(frozen=True)
class DecodedRows:
    """Survivors of one file whose columns have been decoded, so that the file need not be read again."""

    key_columns: Columns
    update_ids: npt.NDArray[np.int64]
    value_columns: Columns


@dataclass
class DiffResult:
    """What the newest delivery N changes on one date. Row numbers are grouped by (source number, file number).

    `surviving`: rows that become survivors. `decoded`: the `surviving` rows whose values were read already.
    `same_id_survivors`: the `surviving` rows with N's own update_id, if N delivers a snapshot again. `removed`: the
    parent's survivors that are no longer survivors. `surplus`: N's surplus rows. `older_surplus_rows`: how many surplus
    rows the older deliveries have, by source. `unresolved_rows`: how many surplus rows were chosen without a comparison
    of values, because they are too many; then another plan has to write the date. `fingerprints`: of N's distinct keys
    and, once all rows are compared, of `same_id_survivors`. `changed`: how many rows have other values; None if values
    are not compared. `has_ranks`: see `PackedKeys`.
    """

    fingerprints: BucketFingerprints
    bucket_count: int
    differing_bucket_count: int
    new_keys: int = 0
    changed: int | None = None
    has_ranks: bool = False
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
    unresolved_rows: int = 0
    new_examples: list[Columns] = field(default_factory=list)
    changed_examples: list[Columns] = field(default_factory=list)
    survivor_examples: list[Columns] = field(default_factory=list)

    @property
    def surplus_rows(self) -> int:
        return sum(map(len, self.surplus))

    def surplus_in(self, file: int) -> npt.NDArray[np.int64]:
        """Return the row numbers of the surplus rows in N's file of this number, ascending."""
        rows = [surplus.row_numbers[surplus.file_numbers == file] for surplus in self.surplus]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    def without_surplus(self, newest: SelectedRows) -> SelectedRows:
        """Return `newest`, rows of N, without its surplus rows."""
        is_retained = np.ones(len(newest), dtype=bool)
        for file in np.unique(newest.file_numbers):
            of_file = np.flatnonzero(newest.file_numbers == file)
            is_retained[of_file[np.isin(newest.row_numbers[of_file], self.surplus_in(int(file)))]] = False
        return newest.take(np.flatnonzero(is_retained))

    def add(self, other: DiffResult) -> None:
        """Add what differs in other buckets. Its fingerprints and numbers of buckets are not added."""
        self.new_keys += other.new_keys
        self.changed = None if self.changed is None or other.changed is None else self.changed + other.changed
        self.has_ranks |= other.has_ranks
        self.unresolved_rows += other.unresolved_rows
        for source, rows in other.older_surplus_rows.items():
            self.older_surplus_rows[source] += rows
        for name in _FIELDS_BY_FILE:
            for file, parts in getattr(other, name).items():
                getattr(self, name)[file] += parts
        for name in _LIST_FIELDS:
            getattr(self, name).extend(getattr(other, name))

    def add_duplicates(self, resolved: ResolvedDuplicates) -> None:
        """Add N's surplus rows."""
        if len(resolved.surplus):
            self.surplus.append(resolved.surplus)
            self.unresolved_rows += 0 if resolved.is_exact else len(resolved.surplus)
