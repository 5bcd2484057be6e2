"""Which dates of plan rewrite can be streamed, judged before anything is read; and what a task is told about each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from dedup_clone.contract.manifest import DateEntry
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.marks import STATE
from dedup_spark.parent import Parent
from dedup_spark.rewrite.orders import DeliveredFiles, HeldDate, Regime, RewriteOrder

Applied = tuple[ExaminedDelivery, ...]


def obstacle(request: DedupRequest, day: date, applied: Applied) -> str | None:
    """Why Spark has to write the date, None where it can be streamed."""
    if request.exact and request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return "values are compared themselves, as asked for"
    having = [examined for examined in applied if day in examined.kept]
    if len(having) > 1:
        return f"[{len(having)}] deliveries have the date"
    for inspected in (inspected for examined in having for inspected in examined.files_of(day)):
        uri, dates = inspected.file.uri, len(inspected.rows_by_date)
        if dates > 1:
            return f"file [{uri}] holds [{dates}] dates"
        if not inspected.is_castable:
            return f"file [{uri}] has columns that only Spark brings into the form that the job writes"
    return None


def rewrite_orders(
    request: DedupRequest, dates: Iterable[date], applied: Applied, parent: Parent
) -> list[RewriteOrder]:
    """The largest first, so that no long task starts last."""
    orders = [_order(request, day, applied, parent) for day in dates]
    return sorted(orders, key=lambda order: (-order.bytes, order.day))


def _order(request: DedupRequest, day: date, applied: Applied, parent: Parent) -> RewriteOrder:
    source, having = next(((n, e) for n, e in enumerate(applied, STATE + 1) if day in e.kept), (STATE, None))
    found = having.files_of(day) if having else ()
    files = tuple(sorted((f.file.uri, f.rows_by_date[day]) for f in found))
    has_own_ids = request.takes_over is not None
    delivered = DeliveredFiles(source, has_own_ids, having.delivery.snapshot_id, files) if having else None
    held = held_date(day, parent)
    size = sum(f.file.size for f in found) + (held.bytes if held else 0)
    return RewriteOrder(day, _regime(request, delivered, held), delivered, held, size)


def _regime(request: DedupRequest, delivered: DeliveredFiles | None, held: HeldDate | None) -> Regime:
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return Regime.BY_VALUE
    late = delivered and held and delivered.snapshot_id <= held.max_update_id
    return Regime.LATE if late else Regime.IN_ORDER


def held_date(day: date, parent: Parent) -> HeldDate | None:
    """None where the parent lacks the date."""
    before = parent.dates.get(day)
    if before is None:
        return None
    return HeldDate(
        data_uri=parent.data_uri,
        files=parent.files_of(day),
        rows=before.rows,
        survivors=before.survivors,
        max_update_id=before.max_update_id,
        key_fingerprint=before.key_fingerprint,
        content_fingerprint=before.content_fingerprint,
        differing_share=_differing_share(before),
    )


def _differing_share(before: DateEntry) -> float | None:
    """As much will differ as the last time, about: keys that came, as many that went, and values that changed."""
    differing = 2 * before.new_keys + (before.changed or 0)
    return differing / before.rows if 0 < differing < before.rows else None
