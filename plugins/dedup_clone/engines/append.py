"""Loads the deliveries that are applied into the incoming table, with free load jobs, one a delivery.

A key's rows of one snapshot id all come from one delivery, because superseded ones are not applied: inside the table
the snapshot id names the delivery.
"""

from __future__ import annotations

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.examination import ExaminedDelivery, refusal
from dedup_clone.engines.external import FILE_LIST, PARQUET_OPTIONS
from dedup_clone.publish.jobs import job_labels, query_configuration, run_step_job, table_reference
from dedup_clone.publish.services import Services


def load_incoming(
    services: Services, request: DedupRequest, examined: tuple[ExaminedDelivery, ...]
) -> tuple[tuple[ExaminedDelivery, ...], tuple[RefusedDelivery, ...]]:
    """Make the table anew and append each delivery. Those that BigQuery cannot decode are refused, with nothing loaded.

    The jobs are the attempt's own and run once each, however often the task is tried. Raises JobFailed.
    """
    if not examined:
        return (), ()
    sql = services.warehouse.render("ddl/create_incoming.sql", names=services.names, table=request.table)
    run_step_job(services, request.attempt, "incoming", query_configuration(services, "incoming", sql, {}))
    loaded, refused = [], []
    numbers = {item.delivery: number for number, item in enumerate(request.deliveries, start=1)}
    for delivery in examined:
        try:
            _append(services, request, delivery, numbers[delivery.delivery])
            loaded.append(delivery)
        except JobFailed as error:
            if not error.by_content:
                raise
            reason = refusal(request, delivery.delivery, [f"BigQuery cannot load its files: {error.message}"])
            refused.append(RefusedDelivery(delivery.delivery, reason))
    return tuple(loaded), tuple(refused)


def _append(services: Services, request: DedupRequest, delivery: ExaminedDelivery, number: int) -> None:
    configuration = {
        "load": {
            "sourceUris": [delivery.uris_uri],
            "fileSetSpecType": FILE_LIST,
            "sourceFormat": "PARQUET",
            "destinationTable": table_reference(services, services.names.incoming_table),
            "createDisposition": "CREATE_NEVER",
            "writeDisposition": "WRITE_APPEND",
            "parquetOptions": PARQUET_OPTIONS,
        },
        "labels": job_labels(services, "append"),
    }
    run_step_job(services, request.attempt, f"append_{number}", configuration)
