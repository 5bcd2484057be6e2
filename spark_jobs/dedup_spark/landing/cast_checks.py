"""Finds values that pyarrow cannot cast to the declared type, in files whose types are not those that the job writes.

Such a file is cast later, when it is compared or rewritten; this check ensures that the cast succeeds. For example, a
column annotated ENUM contains bytes, and some of these may not be text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrow_cast import cast_array
from dedup_spark.column_types import arrow_type


@dataclass
class CastChecks:
    """Counts the values of one file that cannot be cast. `failed`: by column, how many, and the row of the first.

    Rows are counted from 1. An array or STRUCT counts as one value, however many of its elements or fields cannot be
    cast. Problems name no value, because the reason of a refusal stays in records and logs even after the row was
    erased.
    """

    failed: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, column: Column, values: pa.Array, rows_before: int) -> None:
        """Add a batch of the column. `rows_before`: the rows of the file before this batch."""
        if _is_castable(column, values):
            return
        # `take` copies the row alone: a cast of a slice also casts the elements of the other rows' arrays.
        wrong = [n for n in range(len(values)) if not _is_castable(column, values.take(pa.array([n])))]
        if wrong:  # otherwise the batch is only too large for one array, and smaller batches are cast later
            count, row = self.failed.get(column.name, (0, rows_before + wrong[0] + 1))
            self.failed[column.name] = count + len(wrong), row

    def problems(self, columns: tuple[Column, ...]) -> list[str]:
        """One problem for each column with such values."""
        types = {column.name: column.type for column in columns}
        return [
            f"column [{name}]: {count} values cannot be cast to [{types[name]}], the first in row [{row}]"
            for name, (count, row) in sorted(self.failed.items())
        ]


def _is_castable(column: Column, values: pa.Array) -> bool:
    try:
        cast_array(values, arrow_type(column))
    except (pa.ArrowException, ValueError):
        return False
    return True
