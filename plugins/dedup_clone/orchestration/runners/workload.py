"""Estimates how much data a request reads, from the deliveries' inventories and the parent's manifest alone."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services

_BYTES_PER_ROW = 8  # a guess for the first generation; later ones use the row count of the parent


@dataclass(frozen=True)
class Workload:
    """How much a request reads. `delivered_rows` is an estimate for all deliveries together.

    `adoptable`: the job may adopt the landed files, and then reads of them only what it compares. Otherwise it reads
    `parent_rows` too.
    """

    deliveries: int
    delivered_bytes: int
    delivered_rows: int
    parent_rows: int
    dates: int
    adoptable: bool


def read_workload(services: Services, attempt: str) -> Workload:
    """The workload of an attempt. Raises ContractViolation when its request or an arrival record is missing."""
    request = services.manifests.request(attempt)
    if request is None:
        raise ContractViolation(f"The request of attempt [{attempt}] is gone: clear the run from its first task.")
    arrivals = [_arrival(services, d.arrival_uri) for d in request.deliveries]
    by_date = [item for a in arrivals for item in objects_by_date(a, request.table.partition_column).items()]
    objects = [o for arrival in arrivals for o in arrival.objects]
    if request.dates is not None:
        by_date = [(day, files) for day, files in by_date if day in request.dates]
        objects = [o for _, files in by_date for o in files]
    delivered_bytes = sum(o.size for o in objects)
    parent = services.manifests.read(request.parent.generation) if request.parent else None
    rows = parent.rows * len(request.deliveries) if parent else delivered_bytes // _BYTES_PER_ROW
    dates = {day for day, _ in by_date}
    return Workload(
        deliveries=len(request.deliveries),
        delivered_bytes=delivered_bytes,
        delivered_rows=rows,
        parent_rows=parent.rows if parent else 0,
        dates=len(dates) or (len(parent.dates) if parent else 1),
        adoptable=_adoptable(request),
    )


def _arrival(services: Services, uri: str) -> Arrival:
    arrival = services.store.read_record(Arrival, uri.removeprefix(services.store.uri("")))
    if arrival is None:
        raise ContractViolation(
            f"Arrival [{uri}] is gone: restore an earlier version of it (docs/runbook.md, lost records), then retry."
        )
    return arrival


def _adoptable(request: DedupRequest) -> bool:
    return request.plan in (Plan.AUTO, Plan.ADOPT) and request.update_id_mode is UpdateIdMode.LAST_SEEN
