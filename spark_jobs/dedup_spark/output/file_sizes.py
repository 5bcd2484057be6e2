"""The target size of written files, and whether a date is fragmented into far more files than it needs."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import MAX_TABLE_FILES, DedupRequest
from dedup_spark.parent import Parent

# Half of what a generation may have leaves room for dates whose files other publishes have written.
_FILES_OF_A_TABLE = MAX_TABLE_FILES // 2
_FEW_FILES = 8
_FRAGMENTED_FACTOR = 4


def fitting_file_bytes(requested: int, table_bytes: int) -> int:
    """Return the `requested` size, or more where the table would have too many files of that size."""
    return max(requested, -(-table_bytes // _FILES_OF_A_TABLE))


def target_file_bytes(request: DedupRequest, delivered_bytes: int, parent: Parent) -> int:
    """Return the target size of written files, for a table about as large as the parent or the largest delivery."""
    return fitting_file_bytes(request.file_bytes, max(delivered_bytes, sum(file.size for file in parent.files)))


def are_fragmented(files: Iterable[DataFile], file_bytes: int) -> bool:
    """Whether a date has several times as many files as it would have with files of `file_bytes`."""
    sizes = [file.size for file in files]
    needed = -(-sum(sizes) // file_bytes)
    return len(sizes) > max(_FEW_FILES, _FRAGMENTED_FACTOR * needed)
