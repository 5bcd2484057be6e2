"""Computes the target size of written files, and finds dates that have far more files than they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dedup_clone.contract.attempt import MAX_TABLE_FILES
from dedup_clone.contract.manifest import DataFile
from dedup_spark.landing.file_validation import LandedFile
from dedup_spark.parent import Parent

# Half the allowed files are planned for: copied-forward dates keep the files of earlier publishes, which may be smaller
# than the target size.
_MAX_PLANNED_FILES = MAX_TABLE_FILES // 2
# A date with at most this many files is never fragmented.
_FEW_FILES = 8
# A date is fragmented if it has more than this many times the files that it needs.
_FRAGMENTED_FACTOR = 4


def file_bytes_within_limit(requested_file_bytes: int, table_bytes: int) -> int:
    """Return the requested file size, or a larger one if the table would have too many files of that size."""
    return max(requested_file_bytes, -(-table_bytes // _MAX_PLANNED_FILES))


def target_file_bytes(requested_file_bytes: int, landed: Iterable[LandedFile], parent: Parent) -> int:
    """Return the target size, in bytes, of written files. `landed`: the files of all deliveries.

    Deliveries and parent mostly have the same keys, so the table will be about as large as the largest of them.
    """
    delivery_bytes: Counter[int] = Counter()
    for file in landed:
        delivery_bytes[file.snapshot_id] += file.size
    table_bytes = max(sum(file.size for file in parent.files), *delivery_bytes.values(), 0)
    return file_bytes_within_limit(requested_file_bytes, table_bytes)


def are_fragmented(files: Iterable[DataFile], file_bytes: int) -> bool:
    """Whether a date has more than eight files, and more than four times as many as it needs at `file_bytes` each."""
    sizes = [file.size for file in files]
    needed_file_count = -(-sum(sizes) // file_bytes)
    return len(sizes) > max(_FEW_FILES, _FRAGMENTED_FACTOR * needed_file_count)
