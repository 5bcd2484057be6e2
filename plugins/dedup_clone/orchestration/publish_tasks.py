"""The Python tasks of the publish DAG: each opens the services, runs one step of the protocol, returns its order."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.checks.verdicts import require
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.arrival_sensor import publish_run_id
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.check import check_before_swap
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.healing import finish_or_discard
from dedup_clone.publish.orders import Trigger
from dedup_clone.publish.prune import prune
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.services import Services


def resolve_publish(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the run's parameters. Out: the order. Skips the run when its delivery is accounted for already."""
    services = connect(setup)
    with failing_at_once():
        order = resolve(services, _trigger(services, context))
    if isinstance(order, str):
        raise AirflowSkipException(order)
    return to_plain(order)  # type: ignore[no-any-return]


def check_staging(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the order. Out: what may be swapped. A failed check ends the run; target keeps its content."""
    with failing_at_once():
        return to_plain(check_before_swap(connect(setup), pull_order(context)))  # type: ignore[no-any-return]


def commit_swap(setup: FeedSetup, context: Context, target: Asset) -> dict[str, Any]:
    """In: the order; target is swapped. Out: the ledger record. Emits the Asset event of target."""
    record, verdicts = commit_attempt(connect(setup), pull_order(context).attempt)
    context["outlet_events"][target].extra = {
        "snapshot_id": record.snapshot_id,
        "generation": record.generation,
        "lag_s": record.lag_s,
    }
    with failing_at_once():
        require(verdicts, "Target holds the new generation, which is committed.")
    return to_plain(record)  # type: ignore[no-any-return]


def prune_state(setup: FeedSetup) -> list[str]:
    """Out: the data folders that were deleted."""
    return prune(connect(setup))


def settle_failure(setup: FeedSetup, context: Context) -> None:
    """A task failed: commit when the swap happened nevertheless, else free the lease; the next run starts clean."""
    services = connect(setup)
    intent = services.current.read().intent
    run = context["dag_run"]
    if intent is None or (intent.dag_id, intent.run_id) != (run.dag_id, run.run_id):
        services.fact("this run holds no lease: nothing to settle")
        return
    finish_or_discard(services, intent)


def _trigger(services: Services, context: Context) -> Trigger:
    params, run = context["params"], context["dag_run"]
    delivery = _delivery(services, params["snapshot_id"], params["marker_generation"])
    return Trigger(
        dag_id=run.dag_id,
        run_id=run.run_id,
        delivery=delivery,
        replay=run.run_id != publish_run_id(delivery),
        engine=Engine(params["engine"]) if params["engine"] else None,
        plan=params["plan"],
        accepted_checks=tuple(params["accepted_checks"] or ()),
        reason=params["reason"] or "",
    )


def _delivery(services: Services, snapshot_id: str | None, marker_generation: str | None) -> Delivery:
    known = services.arrivals.deliveries()
    ids = ", ".join(sorted({str(d.snapshot_id) for d in known})) or "none"
    if snapshot_id is None:
        raise ConfigurationError(f"Name the snapshot to publish: parameter [snapshot_id]; there are: {ids}.")
    fitting = [
        d for d in known if str(d.snapshot_id) == snapshot_id and marker_generation in (None, str(d.marker_generation))
    ]
    if not fitting:
        raise ConfigurationError(
            f"Snapshot [{snapshot_id}] (delivery [{marker_generation or 'latest'}]) is not registered for "
            f"[{services.feed.feed}]; registered snapshots: {ids}. Land it with its marker, or name one of these."
        )
    return fitting[-1]
