"""Which dates plan adopt can take, judged before anything is read; and what a task is told about each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from statistics import median

from dedup_clone.contract.delivery import LandedObject
from dedup_clone.contract.manifest import DateEntry
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.adopt.orders import DateOrder, DeliveredDate, LandedPart, StateDate
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.landing.inspection import Inspected
from dedup_spark.marks import STATE
from dedup_spark.parent import Parent

Applied = tuple[ExaminedDelivery, ...]

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
        obstacle = _order_obstacle(having[-1], parent.dates.get(day)) or _file_obstacle(day, having)
        if obstacle:
            found[day] = obstacle
    return found


def _order_obstacle(newest: ExaminedDelivery, before: DateEntry | None) -> str | None:
    if before is None or newest.delivery.snapshot_id > before.max_update_id:
        return None
    return f"snapshot id [{newest.delivery.snapshot_id}] is not above [{before.max_update_id}], the date's highest"


def _file_obstacle(day: date, having: list[ExaminedDelivery]) -> str | None:
    for examined in having:
        for inspected in _files_of(examined, day):
            uri, dates = inspected.file.uri, len(inspected.rows_by_date)
            if dates > 1:
                return f"file [{uri}] holds [{dates}] dates"
            if not inspected.is_as_written:
                return f"file [{uri}] has other column types, modes or order than the job writes"
    return None


def date_orders(dates: set[date], applied: Applied, parent: Parent) -> list[DateOrder]:
    """The largest first, so that no long task starts last."""
    orders = [_order(day, applied, parent) for day in dates]
    usual = median(order.bytes for order in orders) if orders else 0
    orders = [_with_threads(order, usual) for order in orders]
    return sorted(orders, key=lambda order: (-order.bytes, order.day))


def _order(day: date, applied: Applied, parent: Parent) -> DateOrder:
    having = [(number, e) for number, e in enumerate(applied, start=STATE + 1) if day in e.kept]
    *older, newest = [_delivered(number, examined, day) for number, examined in having]
    return DateOrder(day, newest, tuple(older), _state(day, parent), threads=1)


def _with_threads(order: DateOrder, usual_bytes: float) -> DateOrder:
    if order.bytes < _LARGE_BYTES or order.bytes < _LARGE_TIMES * usual_bytes:
        return order
    return DateOrder(order.day, order.newest, order.older, order.state, threads=_MOST_THREADS)


def _delivered(source: int, examined: ExaminedDelivery, day: date) -> DeliveredDate:
    arrival = examined.arrival
    frozen = {storage.object_uri(arrival.bucket, landed.name): landed for landed in arrival.objects}
    files = [_part(inspected, frozen, day) for inspected in _files_of(examined, day)]
    return DeliveredDate(source, examined.delivery, tuple(sorted(files, key=lambda file: file.uri)))


def _part(inspected: Inspected, frozen: Mapping[str, LandedObject], day: date) -> LandedPart:
    landed = frozen[inspected.file.uri]
    return LandedPart(inspected.file.uri, landed.size, landed.generation, landed.crc32c, inspected.rows_by_date[day])


def _files_of(examined: ExaminedDelivery, day: date) -> list[Inspected]:
    """Files without rows of the date take no part."""
    return [inspected for inspected in examined.files if inspected.rows_by_date.get(day)]


def _state(day: date, parent: Parent) -> StateDate | None:
    before = parent.dates.get(day)
    if before is None:
        return None
    # As many keys go as come, about.
    share = 2 * before.new_keys / before.rows if 0 < before.new_keys < before.rows else None
    return StateDate(
        parent.data_uri, parent.files_of(day), before.rows, before.max_update_id, before.key_fingerprint, share
    )
