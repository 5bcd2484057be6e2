"""Loads the valid deliveries into the incoming table, each by a load job of its own, free of charge.

All rows of one snapshot id come from one delivery, because superseded deliveries are not applied. So the snapshot id of
a row identifies the row's delivery.
"""

from __future__ import annotations

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.landed_objects import refusal_reason
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import nullable
from dedup_clone.engines.delivery_examination import ExaminedDelivery
from dedup_clone.publish.attempt_jobs import load_configuration, query_configuration, run_step_job
from dedup_clone.publish.services import Services


def load_incoming(
    services: Services, request: DedupRequest, examined: tuple[ExaminedDelivery, ...]
) -> tuple[tuple[ExaminedDelivery, ...], tuple[RefusedDelivery, ...]]:
    """Create the incoming table anew and append each delivery. Returns the loaded and the refused deliveries.

    A delivery whose files BigQuery cannot decode is refused, and none of its rows are loaded. Safe to repeat. Raises
    what `run_step_job` raises, JobFailed only when BigQuery fails for another reason than the files.
    """
    if not examined:
        return (), ()
    options = services.feed.table.options.to_contract()
    sql = services.warehouse.render(
        "ddl/create_incoming.sql", names=services.names, table=request.table, options=options
    )
    run_step_job(services, request.attempt, "incoming", query_configuration(services, "incoming", sql, {}))
    loaded, refused = [], []
    numbers = {item.delivery: number for number, item in enumerate(request.deliveries, start=1)}
    for item in examined:
        configuration = load_configuration(
            services,
            "append",
            list(item.uris),
            services.names.incoming_table,
            map(nullable, request.table.columns),
            writeDisposition="WRITE_APPEND",
        )
        try:
            run_step_job(services, request.attempt, f"append_{numbers[item.delivery]}", configuration)
            loaded.append(item)
        except JobFailed as error:
            if not error.is_invalid_input:
                raise
            reason = refusal_reason(request.feed, item.delivery, [f"BigQuery cannot load its files: {error.message}"])
            refused.append(RefusedDelivery(item.delivery, reason))
    return tuple(loaded), tuple(refused)
