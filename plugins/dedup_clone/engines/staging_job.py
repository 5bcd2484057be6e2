"""What the load step runs: a load job where the generation has files, else the statement of its engine."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.engines.evidence import day_parameters
from dedup_clone.engines.generation import CARRIED
from dedup_clone.publish.jobs import query_configuration, table_reference
from dedup_clone.publish.load import finish_load, load_configuration
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.state.staging import StagingState


def staging_configuration(
    services: Services, order: PublishOrder, candidate: Candidate, manifest: Manifest
) -> dict[str, Any]:
    """The job that makes staging hold the manifest's rows. Ask before STAGING says `loading`: it tells what is there.

    Raises ContractViolation for an engine that should have left files.
    """
    if candidate.load_uris_uri is not None:
        return load_configuration(services, candidate)
    if manifest.engine is Engine.BIGQUERY:
        return _deduplicate(services, order, manifest)
    if manifest.engine is Engine.MERGE:
        return _merge(services, order, manifest)
    raise ContractViolation(
        f"Attempt [{order.attempt}] of engine [{manifest.engine}] names no files to load: clear the run from its "
        f"first task."
    )


def finish_staging(services: Services, order: PublishOrder, candidate: Candidate, manifest: Manifest) -> None:
    """The job ended well: STAGING says `loaded`; the deliveries' rows, which no policy protects, are not kept."""
    finish_load(services, order, manifest)
    if candidate.load_uris_uri is None:
        services.warehouse.drop_table(services.names.incoming_table)


def _deduplicate(services: Services, order: PublishOrder, manifest: Manifest) -> dict[str, Any]:
    parameters = {"retention_day": ("DATE", manifest.retention_day.isoformat())}
    if _has_required(manifest.table.columns):
        return query_configuration(
            services, "load", _render(services, order, manifest, "bigquery/replace_required"), parameters
        )
    return query_configuration(
        services,
        "load",
        _render(services, order, manifest, "bigquery/deduplicate"),
        parameters,
        destinationTable=table_reference(services, services.names.staging_table),
        createDisposition="CREATE_NEVER",
        writeDisposition="WRITE_TRUNCATE_DATA",  # keeps policies and constraints, which CREATE OR REPLACE would drop
    )


def _has_required(columns: tuple[Column, ...]) -> bool:
    return any(column.mode is ColumnMode.REQUIRED or _has_required(column.fields) for column in columns)


def _merge(services: Services, order: PublishOrder, manifest: Manifest) -> dict[str, Any]:
    """One script: staging is made to hold the parent first where it may not."""
    sql = _render(services, order, manifest, "merge/merge")
    if not _holds_parent(services, order):
        sql = f"{_render(services, order, manifest, 'merge/restore_parent')}{sql}"
    delivered = [entry.date for entry in manifest.dates if entry.plan != CARRIED] or [manifest.retention_day]
    parameters = day_parameters(manifest.retention_day, min(delivered), max(delivered))
    return query_configuration(services, "load", sql, parameters)


def _holds_parent(services: Services, order: PublishOrder) -> bool:
    staging = services.staging.read()
    if order.parent is None or staging is None or staging.state is not StagingState.LOADED:
        return False
    return staging.manifest_digest == services.manifests.read(order.parent).digest


def _render(services: Services, order: PublishOrder, manifest: Manifest, name: str) -> str:
    return services.warehouse.render(
        f"engines/{name}.sql", names=services.names, table=manifest.table, has_parent=order.parent is not None
    )
