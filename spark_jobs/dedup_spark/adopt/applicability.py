"""Which dates plan adopt can take, judged before anything is read; and what a task is told about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from statistics import median

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.manifest import DateEntry
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.adopt.orders import DateOrder, DeliveredDate, LandedPart, StateDate
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.landing.inspection import LandedFile
from dedup_spark.marks import STATE
from dedup_spark.parent import Parent

Applied = tuple[ExaminedDelivery, ...]
# What a delivery's inventory says of its objects, by URI.
Frozen = Mapping[str, LandedObject]

# A date so many times as large as the usual one is read by several threads of its task, else it ends last, alone.
_LARGE_TIMES = 4
_LARGE_BYTES = 1 << 30
_MOST_THREADS = 4


def obstacles(request: DedupRequest, applied: Applied, parent: Parent) -> dict[date, str]:
    """Delivered dates that cannot be adopted, and why."""
    delivered = {day for examined in applied for day in examined.kept}
    if request.update_id_mode is not UpdateIdMode.LAST_SEEN:
        return dict.fromkeys(delivered, f"update_id mode [{request.update_id_mode}] compares values")
    found: dict[date, str] = {}
    for day in sorted(delivered):
        having = [examined for examined in applied if day in examined.kept]
        obstacle = _order_obstacle(having[-1].delivery, parent.dates.get(day)) or _file_obstacle(day, having)
        if obstacle:
            found[day] = obstacle
    return found


def _order_obstacle(newest: Delivery, before: DateEntry | None) -> str | None:
    if before is None or newest.snapshot_id > before.max_update_id:
        return None
    return f"snapshot id [{newest.snapshot_id}] is not above [{before.max_update_id}], the date's highest"


def _file_obstacle(day: date, having: list[ExaminedDelivery]) -> str | None:
    for examined in having:
        for inspected in examined.files_of(day):
            uri, dates = inspected.file.uri, len(inspected.rows_by_date)
            if dates > 1:
                return f"file [{uri}] holds [{dates}] dates"
            if not inspected.is_castable:
                return f"file [{uri}] has columns that only Spark brings into the form that the job writes"
    return None


def date_orders(dates: set[date], applied: Applied, parent: Parent) -> list[DateOrder]:
    """The largest first, so that no long task starts last."""
    known = [(number, e, _frozen(e.arrival)) for number, e in enumerate(applied, start=STATE + 1)]
    orders = []
    for day in dates:
        delivered = [_delivered(number, e, frozen, day) for number, e, frozen in known if day in e.kept]
        orders.append(_order(day, delivered, parent))
    return with_threads(orders)


def presumed_orders(
    request: DedupRequest, arrivals: Sequence[Arrival], files: Sequence[LandedFile], parent: Parent
) -> list[DateOrder]:
    """The orders as they will be if every delivery that has `files` is applied; no file has been opened yet.

    Dates come from folders; those that cannot be adopted whatever their files hold are left out.
    """
    if request.update_id_mode is not UpdateIdMode.LAST_SEEN or request.plan not in (Plan.AUTO, Plan.ADOPT):
        return []
    by_date: defaultdict[date, defaultdict[int, list[LandedFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        if file.folder_date and request.retention_day <= file.folder_date <= request.latest_day:
            by_date[file.folder_date][file.snapshot_id].append(file)
    having = {file.snapshot_id for file in files}
    present = [(arrival.delivery, _frozen(arrival)) for arrival in arrivals if arrival.delivery.snapshot_id in having]
    orders = []
    for day, landed in by_date.items():
        delivered = [
            DeliveredDate(number, delivery, _presumed_parts(frozen, landed[delivery.snapshot_id]))
            for number, (delivery, frozen) in enumerate(present, start=STATE + 1)
            if delivery.snapshot_id in landed
        ]
        if _order_obstacle(delivered[-1].delivery, parent.dates.get(day)) is None:
            orders.append(_order(day, delivered, parent))
    return with_threads(orders)


def with_threads(orders: Sequence[DateOrder]) -> list[DateOrder]:
    """The same orders, the largest first, with the number of threads that each should have."""
    usual = median(order.bytes for order in orders) if orders else 0
    return sorted((_with_threads(order, usual) for order in orders), key=lambda order: (-order.bytes, order.day))


def shared_by(order: DateOrder, threads: int) -> DateOrder:
    """With as many threads more as the cores allow."""
    return replace(order, threads=max(order.threads, min(threads, _MOST_THREADS)))


def _order(day: date, delivered: Sequence[DeliveredDate], parent: Parent) -> DateOrder:
    *older, newest = delivered
    return DateOrder(day, newest, tuple(older), _state(day, parent), threads=1)


def _with_threads(order: DateOrder, usual_bytes: float) -> DateOrder:
    if order.bytes < _LARGE_BYTES or order.bytes < _LARGE_TIMES * usual_bytes:
        return order
    return replace(order, threads=_MOST_THREADS)


def _delivered(source: int, examined: ExaminedDelivery, frozen: Frozen, day: date) -> DeliveredDate:
    parts = [_part(i.file.uri, frozen, i.rows_by_date[day], i.is_as_written) for i in examined.files_of(day)]
    return DeliveredDate(source, examined.delivery, _sorted(parts))


def _presumed_parts(frozen: Frozen, files: Sequence[LandedFile]) -> tuple[LandedPart, ...]:
    return _sorted([_part(file.uri, frozen, rows=0, is_as_written=False) for file in files])


def _frozen(arrival: Arrival) -> Frozen:
    """Made once a delivery, which may have many thousand objects."""
    return {storage.object_uri(arrival.bucket, landed.name): landed for landed in arrival.objects}


def _part(uri: str, frozen: Frozen, rows: int, is_as_written: bool) -> LandedPart:
    landed = frozen[uri]
    return LandedPart(uri, landed.size, landed.generation, landed.crc32c, rows, is_as_written)


def _sorted(parts: Sequence[LandedPart]) -> tuple[LandedPart, ...]:
    return tuple(sorted(parts, key=lambda part: part.uri))


def _state(day: date, parent: Parent) -> StateDate | None:
    before = parent.dates.get(day)
    if before is None:
        return None
    # As many keys go as come, about; a bucket is also opened for values that changed.
    differing = 2 * before.new_keys + (before.changed or 0)
    share = differing / before.rows if before.new_keys > 0 and differing < before.rows else None
    return StateDate(
        parent.data_uri, parent.files_of(day), before.rows, before.max_update_id, before.key_fingerprint, share
    )
