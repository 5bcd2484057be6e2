"""The trigger form's answers as what the publish is asked to do; what names nothing is refused with what there is."""

from __future__ import annotations

from airflow.sdk import Context

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.arrival_sensor import publish_run_id
from dedup_clone.publish.date_ranges import parse_dates
from dedup_clone.publish.orders import Trigger
from dedup_clone.publish.services import Services


def read_trigger(services: Services, context: Context) -> Trigger:
    """Raises ConfigurationError, naming the snapshots that are registered."""
    params, run = context["params"], context["dag_run"]
    delivery = _delivery(services, params["snapshot_id"], params["marker_generation"])
    accepted, reason = tuple(params["accepted_checks"] or ()), (params["reason"] or "").strip()
    if accepted and not reason:
        raise ConfigurationError(f"Say why {list(accepted)} may fail this time: parameter [reason].")
    dates = parse_dates(params["dates"]) if params["dates"] else None
    return Trigger(
        dag_id=run.dag_id,
        run_id=run.run_id,
        delivery=delivery,
        replay=dates is not None or run.run_id != publish_run_id(delivery),
        engine=Engine(params["engine"]) if params["engine"] else None,
        plan=params["plan"],
        accepted_checks=accepted,
        reason=reason,
        dates=dates,
    )


def _delivery(services: Services, snapshot_id: str | None, marker_generation: str | None) -> Delivery:
    known = services.arrivals.deliveries()
    ids = ", ".join(str(number) for number in sorted({d.snapshot_id for d in known})) or "none"
    if snapshot_id is None:
        raise ConfigurationError(f"Name the snapshot to publish: parameter [snapshot_id]; there are: {ids}.")
    of_snapshot = [d for d in known if str(d.snapshot_id) == snapshot_id]
    if not of_snapshot:
        raise ConfigurationError(
            f"Snapshot [{snapshot_id}] is not registered for [{services.feed.feed}]; registered snapshots: {ids}. "
            f"Land it with its marker, or name one of these."
        )
    fitting = [d for d in of_snapshot if marker_generation in (None, str(d.marker_generation))]
    if not fitting:
        raise ConfigurationError(
            f"Delivery [{marker_generation}] of snapshot [{snapshot_id}] is not registered for "
            f"[{services.feed.feed}]; its deliveries: {', '.join(str(d.marker_generation) for d in of_snapshot)}. "
            f"Name one of these, or leave it empty for the latest."
        )
    return fitting[-1]
