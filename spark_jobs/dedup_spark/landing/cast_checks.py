"""Finds values that cannot be cast to the declared type, in files whose types are not those that the job writes.

For example, a column annotated ENUM contains bytes, and some of them may not be text. Such a file is cast when it is
compared or rewritten. After this check that cast cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrow_cast import cast_array
from dedup_spark.column_types import arrow_type


@dataclass
class CastChecks:
    """Collects the values that cannot be cast. `failed`: by column name, their number and the first one's row.

    No value is named, because refusals and logs keep the reason when the row has to be erased.
    """

    failed: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, column: Column, values: pa.Array, rows_before: int) -> None:
        """Add a batch of the column. `rows_before`: the rows of the file before this batch."""
        if _is_castable(column, values):
            return
        wrong = [n for n in range(len(values)) if not _is_castable(column, values.slice(n, 1))]
        if wrong:  # without a wrong value only the batch is too large for one array; smaller batches are cast later
            count, row = self.failed.get(column.name, (0, rows_before + wrong[0] + 1))
            self.failed[column.name] = count + len(wrong), row

    def problems(self, columns: tuple[Column, ...]) -> list[str]:
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
