"""Mode last_changed: landed files judged and compared with the parent in one pass, before it is known what is applied.

What came of a date counts only if its order turns out as it was presumed: the delivery not refused, none of its files
unfit. Everything else is thrown away, and the date is taken up again when the plans are chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.adopt.examining_reader import ExaminingReader
from dedup_spark.adopt.first_look import are_alike, footer_rows
from dedup_spark.adopt.over_dates import over_dates
from dedup_spark.fingerprints import stored
from dedup_spark.landing.examination import Inspect
from dedup_spark.landing.inspection import Inspected, Inspector, LandedFile
from dedup_spark.marks import STATE
from dedup_spark.parent import Parent
from dedup_spark.rewrite.applicability import held_date
from dedup_spark.rewrite.date import RewriteDate
from dedup_spark.rewrite.file_sizes import file_bytes
from dedup_spark.rewrite.orders import DeliveredFiles, LeftToSpark, Regime, RewriteOrder, RewrittenDate
from dedup_spark.session import Spark

Outcome = RewrittenDate | LeftToSpark


@dataclass(frozen=True)
class _DateLook:
    """`order` has the rows that were counted; it and `outcome` are None where a file is wrong or unfit."""

    inspected: tuple[Inspected, ...]
    order: RewriteOrder | None
    outcome: Outcome | None


@dataclass(frozen=True)
class _LookAtDate:
    """Called on the driver or in a Spark task, with a presumed order. `landed` are its files."""

    rewrite: RewriteDate
    inspector: Inspector
    landed: dict[date, tuple[LandedFile, ...]]

    def __call__(self, presumed: RewriteOrder) -> _DateLook:
        landed = {file.uri: file for file in self.landed[presumed.day]}
        reader = ExaminingReader(self.rewrite.table, inspector=self.inspector, landed=landed)
        try:
            outcome = self.rewrite.with_reader(_with_expected_rows(presumed), reader)
        except Exception:  # whatever a file makes of its reader: judged alone, it says what
            found = (reader.inspected.get(uri) or self.inspector(file) for uri, file in landed.items())
            return _DateLook(tuple(found), None, None)
        inspected = tuple(reader.inspected[uri] for uri in landed)
        return _DateLook(inspected, _counted(presumed, inspected), outcome)


@dataclass
class RewriteLook:
    """Judges the files of an examination; what it found of dates beside is asked for afterwards.

    Files of which it can tell no more are left to `others`.
    """

    request: DedupRequest
    parent: Parent
    spark: Spark
    say: Callable[[str], None]
    others: Inspect
    _found: dict[RewriteOrder, Outcome] = field(default_factory=dict)

    def inspect(self, files: Sequence[LandedFile]) -> list[Inspected]:
        """Verdicts in any order."""
        landed = self._landed(files)
        orders = [_presumed(day, of_day, self.parent) for day, of_day in landed.items()]
        size = file_bytes(self.request, sum(file.size for file in files), self.parent)

        def work(held_bytes: int) -> _LookAtDate:
            rewrite = RewriteDate(self.request.table, self.request.data_uri, size, held_bytes)
            return _LookAtDate(rewrite, Inspector(self.request.table, self.request.latest_day), landed)

        where = f"{self.request.feed} generation {self.request.generation}"
        by_size = sorted(orders, key=lambda order: (-order.bytes, order.day))
        looks = over_dates(self.spark, work, by_size, f"{where}: examine, compare and write rows", self.say)
        self._found = {_plain(look.order): look.outcome for look in looks if look.order and look.outcome}
        inspected = [one for look in looks for one in look.inspected]
        seen = {one.file.uri for one in inspected}
        return inspected + self.others([file for file in files if file.uri not in seen])

    def take(self, orders: Sequence[RewriteOrder]) -> dict[date, Outcome]:
        """What is known of these orders. All else that was found is deleted, before any plan writes."""
        wanted = {_plain(order) for order in orders}
        for order in self._found.keys() - wanted:
            outcome = self._found.pop(order)
            files = (outcome.files or ()) if isinstance(outcome, RewrittenDate) else ()
            for path in (*(file.path for file in files), stored.path_of(order.day)):
                storage.delete(storage.join(self.request.data_uri, path))
        return {order.day: outcome for order, outcome in self._found.items()}

    def _landed(self, files: Sequence[LandedFile]) -> dict[date, tuple[LandedFile, ...]]:
        """By date, where dates are folders and one delivery alone is at hand."""
        request = self.request
        plans = (Plan.AUTO, Plan.ADOPT, Plan.REWRITE)
        if (
            request.takes_over is not None
            or request.update_id_mode is not UpdateIdMode.LAST_CHANGED
            or request.exact
            or request.plan not in plans
        ):
            return {}
        by_date: defaultdict[date, list[LandedFile]] = defaultdict(list)
        for file in sorted(files, key=lambda file: file.uri):
            if file.folder_date and request.retention_day <= file.folder_date <= request.latest_day:
                by_date[file.folder_date].append(file)
        one_delivery = len({file.snapshot_id for file in files}) == 1
        return {day: tuple(of_day) for day, of_day in by_date.items()} if one_delivery else {}


def _presumed(day: date, landed: tuple[LandedFile, ...], parent: Parent) -> RewriteOrder:
    delivered = DeliveredFiles(STATE + 1, False, landed[0].snapshot_id, tuple((file.uri, 0) for file in landed))
    held = held_date(day, parent)
    size = sum(file.size for file in landed) + (held.bytes if held else 0)
    return RewriteOrder(day, Regime.BY_VALUE, delivered, held, size)


def _with_expected_rows(order: RewriteOrder) -> RewriteOrder:
    """As many as a parent of like size has, else as the footers say. They choose the number of buckets alone."""
    assert order.delivered
    if order.held and are_alike(order.bytes - order.held.bytes, order.held.bytes):
        (first, _), *others = order.delivered.files
        files = ((first, order.held.rows), *others)
        return replace(order, delivered=replace(order.delivered, files=files))
    counts = tuple((uri, footer_rows(uri)) for uri, _ in order.delivered.files)
    return replace(order, delivered=replace(order.delivered, files=counts))


def _counted(order: RewriteOrder, inspected: tuple[Inspected, ...]) -> RewriteOrder | None:
    """Files without rows take no part. None where there is no row at all."""
    assert order.delivered
    counted = [(one.file.uri, one.rows_by_date.get(order.day, 0)) for one in inspected]
    files = tuple((uri, rows) for uri, rows in counted if rows)
    return replace(order, delivered=replace(order.delivered, files=files)) if files else None


def _plain(order: RewriteOrder) -> RewriteOrder:
    """Without what may differ and changes nothing."""
    return replace(order, bytes=0)
