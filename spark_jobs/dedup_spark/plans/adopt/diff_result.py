"""Records what the newest delivery changes on a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dedup_spark.comparison.duplicate_keys import ResolvedDuplicates, require_few_surplus_rows
from dedup_spark.comparison.selected_rows import Columns, SelectedRows
from dedup_spark.fingerprints.buckets import BucketFingerprints

# The fields of DiffResult that `add` merges: by file, and as lists.
_FIELDS_BY_FILE = ("surviving", "decoded", "removed")
_LIST_FIELDS = ("same_id_survivors", "surplus", "new_examples", "changed_examples", "survivor_examples")


@dataclass(frozen=True)
class DecodedSurvivors:
    """Survivors of one file whose columns have been decoded, so that the file need not be read again."""

    key_columns: Columns
    update_ids: npt.NDArray[np.int64]
    value_columns: Columns


@dataclass
class DiffResult:
    """What the newest delivery of a date changes. Rows are grouped by the numbers of their source and file.

    - fingerprints: of the delivery's distinct keys and, once all rows are compared, of `same_id_survivors`.
    - bucket_count, differing_bucket_count: how many buckets were compared by fingerprints, and how many differ.
    - new_keys: how many keys of the deliveries the parent lacks.
    - changed: how many of the parent's rows get other values; None if values are not compared.
    - has_ranks: whether keys were packed by rank (see `PackedKeys`).
    - older_surplus_rows: how many surplus rows each older delivery has, by source number.
    - surviving: the numbers of rows that become survivors.
    - decoded: the `surviving` rows whose values were read already.
    - same_id_survivors: the `surviving` rows whose update_id is the newest delivery's snapshot id. There are
      some only if this delivery lands a snapshot again.
    - removed: the numbers of the parent's rows that were survivors and no longer are.
    - surplus: the newest delivery's surplus rows.
    - new_examples, changed_examples, survivor_examples: the key columns of a few such rows.
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
    decoded: defaultdict[tuple[int, int], list[DecodedSurvivors]] = field(default_factory=lambda: defaultdict(list))
    same_id_survivors: list[SelectedRows] = field(default_factory=list)
    removed: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    surplus: list[SelectedRows] = field(default_factory=list)
    new_examples: list[Columns] = field(default_factory=list)
    changed_examples: list[Columns] = field(default_factory=list)
    survivor_examples: list[Columns] = field(default_factory=list)

    @property
    def surplus_rows(self) -> int:
        return sum(map(len, self.surplus))

    def surplus_in(self, file: int) -> npt.NDArray[np.int64]:
        """Return the row numbers, ascending, of the surplus rows in the newest delivery's file of this number."""
        rows = [surplus.row_numbers[surplus.file_numbers == file] for surplus in self.surplus]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows]))

    def without_surplus(self, newest: SelectedRows) -> SelectedRows:
        """Return `newest`, rows of the newest delivery, without surplus rows."""
        is_retained = np.ones(len(newest), dtype=bool)
        for file in np.unique(newest.file_numbers):
            of_file = np.flatnonzero(newest.file_numbers == file)
            is_retained[of_file[np.isin(newest.row_numbers[of_file], self.surplus_in(int(file)))]] = False
        return newest.take(np.flatnonzero(is_retained))

    def add(self, other: DiffResult) -> None:
        """Add the result of other buckets, except its fingerprints and numbers of buckets. Raises TooManyDuplicates."""
        self.new_keys += other.new_keys
        self.changed = None if self.changed is None or other.changed is None else self.changed + other.changed
        self.has_ranks |= other.has_ranks
        for source, rows in other.older_surplus_rows.items():
            self.older_surplus_rows[source] += rows
        for name in _FIELDS_BY_FILE:
            for source_and_file, found in getattr(other, name).items():
                getattr(self, name)[source_and_file] += found
        for name in _LIST_FIELDS:
            getattr(self, name).extend(getattr(other, name))
        require_few_surplus_rows(self.surplus_rows)

    def add_duplicates(self, resolved: ResolvedDuplicates) -> None:
        """Add surplus rows of the newest delivery. Raises TooManyDuplicates."""
        if len(resolved.surplus):
            self.surplus.append(resolved.surplus)
            require_few_surplus_rows(self.surplus_rows)
