"""Records what the deliveries change on a date."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark.arrays import EMPTY_I64, I64Array
from dedup_spark.comparison.duplicate_keys import require_few_surplus_rows
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.selected_rows import Columns, SelectedRows

# The most added rows that are kept in memory, beside those that were decoded from a sketch.
MAX_ADDED_ROWS = 1 << 20


@dataclass
class DiffResult:
    """What the deliveries of a date change. Rows are grouped by the numbers of their source and file.

    With policy IN_ORDER the date keeps the newest delivery's rows, except surplus rows, and the parent's survivors,
    unless these are deleted (`ComparisonInputs.deletes`). With other policies it keeps the parent's rows. Of these,
    some are removed, and others are added.

    - differing: how many rows differ by the sketches, each step from one delivery to the next counted; None if the
      sketches do not tell, so that all rows were compared.
    - is_decoded: the differing rows were decoded from the sketches, and not read.
    - new_keys: how many keys of the deliveries the parent lacks.
    - changed: how many of the parent's rows get other values.
    - surplus: surplus rows by source number.
    - added_rows: rows that the date gets beside those that it keeps.
    - added: the numbers of more such rows, which are not in memory and have to be read from their files.
    - removed: by file, the numbers of the parent's rows that the date does not keep after all.
    - free_rows: how many more rows of files may be in `added_rows`.
    - new_examples, changed_examples, survivor_examples: the key columns of a few such rows.
    """

    differing: int | None = 0
    is_decoded: bool = False
    new_keys: int = 0
    changed: int = 0
    surplus: defaultdict[int, list[SelectedRows]] = field(default_factory=lambda: defaultdict(list))
    added_rows: list[pa.Table] = field(default_factory=list)
    added: defaultdict[tuple[int, int], list[I64Array]] = field(default_factory=lambda: defaultdict(list))
    removed: defaultdict[int, list[I64Array]] = field(default_factory=lambda: defaultdict(list))
    free_rows: int = field(default_factory=lambda: MAX_ADDED_ROWS)
    new_examples: list[Columns] = field(default_factory=list)
    changed_examples: list[Columns] = field(default_factory=list)
    survivor_examples: list[Columns] = field(default_factory=list)

    def surplus_rows(self, source: int) -> int:
        """How many surplus rows the delivery with this source number has."""
        return sum(map(len, self.surplus[source]))

    def surplus_in(self, source: int, file: int) -> I64Array:
        """Return the row numbers, ascending, of the surplus rows in the source's file of this number."""
        rows = [surplus.row_numbers[surplus.file_numbers == file] for surplus in self.surplus[source]]
        return np.sort(np.concatenate([EMPTY_I64, *rows]))

    def added_in(self, source: int, file: int) -> I64Array:
        """Return the row numbers, ascending, of the added rows to read from the source's file of this number."""
        return np.sort(np.concatenate([EMPTY_I64, *self.added.get((source, file), ())]))

    def removed_in(self, file: int) -> I64Array:
        """Return the row numbers, ascending, of the removed rows of the parent's file of this number."""
        return np.sort(np.concatenate([EMPTY_I64, *self.removed.get(file, ())]))

    def add_surplus(self, source: int, rows: SelectedRows) -> None:
        """Add surplus rows of a delivery. Raises TooManyDuplicates."""
        self.surplus[source].append(rows)
        require_few_surplus_rows(self.surplus_rows(source))

    def examples(self, table: TableContract, day: date) -> tuple[KeyExample, ...]:
        """Return a few keys of each kind of difference, as text."""
        found = []
        for kind, samples in (
            (Difference.NEW, self.new_examples),
            (Difference.CHANGED, self.changed_examples),
            (Difference.SURVIVOR, self.survivor_examples),
        ):
            texts = [text for keys in samples for text in key_texts(table, [column.to_pylist() for column in keys])]
            found += [KeyExample(day, kind, text) for text in texts[:EXAMPLES_PER_DATE]]
        return tuple(found)
