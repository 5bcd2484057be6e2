"""Sets refused deliveries aside: recorded once, they block no other."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Refusal


def set_aside(services: Services, refused: Iterable[RefusedDelivery], *, run_id: str) -> None:
    for item in refused:
        services.arrivals.refuse(Refusal(item.delivery, item.reason, run_id, services.now()))
        services.fact(f"refused delivery [{item.delivery.name}]: {item.reason}", snapshot_id=item.delivery.snapshot_id)
