"""Which size written files should have, and which dates lie in so many small ones that they should be written anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import FILES_PER_JOB, DedupRequest
from dedup_spark.adopt.survivors import MOST_FILES
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.parent import Parent

# Half of what one job takes leaves room for dates that others have written.
_FILES_OF_A_TABLE = FILES_PER_JOB // 2
_FEW_FILES = 8
_TIMES_TOO_MANY = 4


def good_file_bytes(wanted: int, table_bytes: int) -> int:
    """`wanted`, or more where the whole table would take too many files of it."""
    return max(wanted, -(-table_bytes // _FILES_OF_A_TABLE))


def file_bytes(request: DedupRequest, delivered_bytes: int, parent: Parent) -> int:
    """The size of written files. The table will hold about as much as its largest source of `delivered_bytes`."""
    return good_file_bytes(request.file_bytes, max(delivered_bytes, sum(file.size for file in parent.files)))


def are_scattered(files: Iterable[DataFile], file_bytes: int) -> bool:
    """Whether a date's files are several times as many as files of that size would be."""
    sizes = [file.size for file in files]
    needed = -(-sum(sizes) // file_bytes)
    return len(sizes) > max(_FEW_FILES, _TIMES_TOO_MANY * needed)


def in_too_many_files(applied: Sequence[ExaminedDelivery], parent: Parent) -> dict[date, str]:
    """Delivered dates that are not to be adopted, and why: else the generation had more files than one load job takes.

    Those in the most files, as few of them as do.
    """
    newest = {day: examined for examined in applied for day in examined.kept}
    counts = Counter(file.date for file in parent.files if file.date not in newest)
    for day, examined in newest.items():
        counts[day] = _most_survivor_files(day, parent) + len(examined.files_of(day))
    total, found = counts.total(), {}
    for day, count in counts.most_common():
        if total <= FILES_PER_JOB:
            break
        if day in newest:
            files = len(newest[day].files_of(day))
            found[day] = f"its [{files}] files are too many beside the others' for one load job"
            total -= count
    return found


def _most_survivor_files(day: date, parent: Parent) -> int:
    """Those that the date has, and one that is written; never more than are left in place."""
    before = parent.dates.get(day)
    held = sum(file.max_update_id < before.max_update_id for file in parent.files_of(day)) if before else 0
    return min(held + 1, MOST_FILES)
