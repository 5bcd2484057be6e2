"""Landed files judged and compared with the parent in one pass, date by date, before it is known what is applied.

What came of a date counts only if its order turns out as it was presumed: no delivery refused, none of its files unfit.
Everything else is thrown away, and the date is taken up again when the plans are chosen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.parquet as pq

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.adopt.applicability import presumed_orders, shared_by
from dedup_spark.adopt.date import AdoptDate
from dedup_spark.adopt.differences import LIMITS
from dedup_spark.adopt.examining_reader import ExaminingReader
from dedup_spark.adopt.orders import AdoptedDate, DateOrder, DeliveredDate, Outcome
from dedup_spark.adopt.over_dates import over_dates
from dedup_spark.fan_out import FanOut
from dedup_spark.fingerprints import stored
from dedup_spark.landing.examination import inspect_files
from dedup_spark.landing.inspection import Inspected, Inspector, LandedFile
from dedup_spark.parent import Parent
from dedup_spark.session import Spark

log = logging.getLogger("dedup_spark")

# Sizes that differ by less are those of about as many rows.
_LIKE_TIMES = 2


@dataclass(frozen=True)
class DateLook:
    """`order` is the date's with its rows counted, `outcome` what came of it; None where that was not to be had."""

    inspected: tuple[Inspected, ...]
    order: DateOrder | None
    outcome: Outcome | None


@dataclass(frozen=True)
class LookAtDate:
    """Called on the driver or in a Spark task, with a presumed order."""

    adopt: AdoptDate
    inspector: Inspector

    def __call__(self, presumed: DateOrder) -> DateLook:
        """Never fails for what it reads: landed files are then judged alone, and the date is left to its plan."""
        began = time.monotonic()
        landed = _landed_files(presumed)
        reader = ExaminingReader(self.adopt.table, inspector=self.inspector, landed={file.uri: file for file in landed})
        order, outcome = None, None
        try:
            sides = self.adopt.open(presumed, reader, _expected_rows(presumed))
            delivered = sides.fingerprints()
            seen = _seen(presumed, reader.inspected)
            order = _with_rows(seen)
            if order:
                outcome = self.adopt.settle(seen, sides, delivered, reader, began)
        except Exception as error:  # a file judged alone says what is wrong with it, a plan what the parent lacks
            log.info("date [%s] is not adopted at first sight: %s: %s", presumed.day, type(error).__name__, error)
        inspected = (reader.inspected.get(file.uri) or self.inspector(file) for file in landed)
        return DateLook(tuple(inspected), order, outcome)


@dataclass
class FirstLook:
    """Judges the files of an examination; what it found of dates beside is asked for afterwards."""

    request: DedupRequest
    arrivals: Sequence[Arrival]
    parent: Parent
    spark: Spark
    say: Callable[[str], None]
    _found: dict[DateOrder, Outcome] = field(default_factory=dict)

    def inspect(self, files: Sequence[LandedFile]) -> list[Inspected]:
        """Verdicts in any order."""
        orders = presumed_orders(self.request, self.arrivals, files, self.parent)
        what = f"{self._where}: examine and compare"
        looks = over_dates(self.spark, self._work, orders, what, self.say, shared_by)
        self._found = {_plain(look.order): look.outcome for look in looks if look.order and look.outcome}
        inspected = [one for look in looks for one in look.inspected]
        seen = {one.file.uri for one in inspected}
        others = [file for file in files if file.uri not in seen]
        return inspected + inspect_files(self.request, others, FanOut(self.spark))

    def take(self, orders: Sequence[DateOrder]) -> dict[DateOrder, Outcome]:
        """What is known of these orders. All else that was found is deleted, before any plan writes."""
        wanted = {_plain(order): order for order in orders}
        for order in self._found.keys() - wanted.keys():
            for path in _written_paths(self._found.pop(order)):
                storage.delete(storage.join(self.request.data_uri, path))
        return {wanted[order]: outcome for order, outcome in self._found.items()}

    @property
    def _where(self) -> str:
        return f"{self.request.feed} generation {self.request.generation}"

    def _work(self, held_bytes: int) -> LookAtDate:
        inspector = Inspector(self.request.table, self.request.latest_day)
        return LookAtDate(AdoptDate.of(self.request, held_bytes, LIMITS), inspector)


def _landed_files(order: DateOrder) -> list[LandedFile]:
    return [
        LandedFile(file.uri, file.size, part.delivery.snapshot_id, order.day)
        for part in (order.newest, *order.older)
        for file in part.files
    ]


def _expected_rows(order: DateOrder) -> int:
    """Of the newest delivery: as many as a parent of like size has, else as its footers say.

    They choose the buckets' number: fingerprints that are too coarse would open all buckets of the next snapshot.
    """
    if order.state and are_alike(order.newest.bytes, order.state.bytes):
        return order.state.rows
    return sum(footer_rows(part.uri) for part in order.newest.files)


def footer_rows(uri: str) -> int:
    """As many rows as the file's footer says."""
    with storage.open_input(uri) as source:
        return int(pq.read_metadata(source).num_rows)


def are_alike(size: int, other: int) -> bool:
    """Whether files of so many bytes hold about as many rows."""
    return max(size, other) <= _LIKE_TIMES * min(size, other)


def _seen(order: DateOrder, inspected: Mapping[str, Inspected]) -> DateOrder:
    """With what was not known before the files were read; empty ones are still there."""

    def seen(part: DeliveredDate) -> DeliveredDate:
        facts = [(file, inspected[file.uri]) for file in part.files]
        files = (replace(f, rows=i.rows_by_date.get(order.day, 0), is_as_written=i.is_as_written) for f, i in facts)
        return replace(part, files=tuple(files))

    return replace(order, newest=seen(order.newest), older=tuple(map(seen, order.older)))


def _with_rows(order: DateOrder) -> DateOrder | None:
    """Files and deliveries without rows take no part. None where the newest delivery has none."""
    newest, *older = (
        replace(part, files=tuple(file for file in part.files if file.rows)) for part in (order.newest, *order.older)
    )
    if not newest.files:
        return None
    return replace(order, newest=newest, older=tuple(part for part in older if part.files))


def _plain(order: DateOrder) -> DateOrder:
    """Without what may differ and changes nothing."""
    return replace(order, threads=1)


def _written_paths(outcome: Outcome) -> list[str]:
    """Survivors that were written or copied, and the date's fingerprints."""
    files = outcome.files if isinstance(outcome, AdoptedDate) else ()
    return [*(file.path for file in files), stored.path_of(outcome.day)]
