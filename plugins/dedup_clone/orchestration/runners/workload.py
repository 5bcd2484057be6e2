"""How much work a request is, told from records alone: the frozen inventories and the parent's manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services

_DATE_FOLDER = re.compile(r"/date=([^/]+)/")
_BYTES_PER_ROW = 8  # of numbers in Parquet; where the parent tells the rows, nothing is guessed


@dataclass(frozen=True)
class Workload:
    """`delivered_rows`: of all deliveries together. `parent_rows`: what a plan that rewrites reads besides.

    `adoptable`: the snapshot's files can become the generation's; only keys and values to compare are read then.
    """

    deliveries: int
    delivered_bytes: int
    delivered_rows: int
    parent_rows: int
    dates: int
    adoptable: bool


def read_workload(services: Services, attempt: str) -> Workload:
    """The work of an attempt. Raises ContractViolation when its request is gone."""
    request = services.manifests.request(attempt)
    if request is None:
        raise ContractViolation(f"The request of attempt [{attempt}] is gone: clear the run from its first task.")
    objects = [o for d in request.deliveries for o in _arrival(services, d.arrival_uri).objects]
    if request.dates is not None:
        wanted = {str(day) for day in request.dates}
        objects = [o for o in objects if _date_of(o.name) in wanted]
    size = sum(o.size for o in objects)
    parent = services.manifests.read(request.parent.generation) if request.parent else None
    rows = parent.rows * len(request.deliveries) if parent else size // _BYTES_PER_ROW
    dates = {day for o in objects if (day := _date_of(o.name))}
    return Workload(
        deliveries=len(request.deliveries),
        delivered_bytes=size,
        delivered_rows=rows,
        parent_rows=parent.rows if parent else 0,
        dates=len(dates) or (len(parent.dates) if parent else 1),
        adoptable=_adoptable(request),
    )


def _arrival(services: Services, uri: str) -> Arrival:
    found = services.store.read_record(Arrival, uri.removeprefix(services.store.uri("")))
    if found is None:
        raise ContractViolation(
            f"Arrival [{uri}] is gone: restore it (soft delete keeps it for seven days), then retry."
        )
    return found


def _date_of(name: str) -> str | None:
    match = _DATE_FOLDER.search(name)
    return match[1] if match else None


def _adoptable(request: DedupRequest) -> bool:
    return request.plan in (Plan.AUTO, Plan.ADOPT) and request.update_id_mode is UpdateIdMode.LAST_SEEN
