"""Lowers the job's limits of memory, so that what it does for large dates is done for a few rows.

The changes reach only what runs in the test's own process: use them with a DriverSession.
"""

from __future__ import annotations

import pytest

from dedup_spark import data_files, dispatch, storage
from dedup_spark.changes import change_files
from dedup_spark.comparison import duplicate_keys, selected_rows
from dedup_spark.plans.difference import comparison_inputs, diff_result, differences
from dedup_spark.sketch import sketch
from testkit import driver_session


def lower_limits(patch: pytest.MonkeyPatch) -> None:
    """Dates are divided, no keys are cached between passes, and a few rows are compared at a time.

    Texts are read as dictionaries even if these are larger than plain texts, as those of a few rows are.
    """
    divide_every_date(patch)
    patch.setattr(storage, "_LENGTH_BYTES", 1 << 20)
    patch.setattr(comparison_inputs, "_KEY_CACHE_BYTES", 0)
    patch.setattr(selected_rows, "_ROWS_IN_MEMORY", 9)
    patch.setattr(differences, "ROWS_AT_A_TIME", 25)
    patch.setattr(differences, "CODES_AT_A_TIME", 15)
    patch.setattr(change_files, "ROWS_PER_RANGE", 13)
    patch.setattr(change_files, "_BYTES_AT_A_TIME", 4096)
    patch.setattr(duplicate_keys, "_ROWS_AT_A_TIME", 5)
    patch.setattr(diff_result, "MAX_ADDED_ROWS", 9)
    patch.setattr(data_files, "_GROUP_ROWS", 3)


def divide_every_date(patch: pytest.MonkeyPatch) -> None:
    """Each landed file is a part of its date, as if dates were large, and cores many."""
    patch.setattr(dispatch, "_PART_BYTES", 1)
    patch.setattr(driver_session, "CORES", 1000)


def scale_limits(patch: pytest.MonkeyPatch, scale: int) -> None:
    """Divides the limits by `scale`, for dates that are as much smaller than those of production."""
    patch.setattr(sketch, "MAX_BITS", sketch.MAX_BITS - scale.bit_length() + 1)
    for module, name in (
        (differences, "ROWS_AT_A_TIME"),
        (differences, "CODES_AT_A_TIME"),
        (selected_rows, "_ROWS_IN_MEMORY"),
    ):
        patch.setattr(module, name, getattr(module, name) // scale)
