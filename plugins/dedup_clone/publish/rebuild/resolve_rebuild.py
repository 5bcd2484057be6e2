"""The steps of a rebuild that a publish lacks: copy and export target's rows, set layouts, delete the copies.

The exported rows are handled like those of an existing table that is taken over: the dedup job validates them, proves
that the keys are unique, and writes them anew. Target's rows stay as they are until the swap. If a run ends before its
swap, `discard` gives both tables the layout of the live generation again.
"""

from __future__ import annotations

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, JobFailed
from dedup_clone.contract.kind import Kind
from dedup_clone.publish.attempt_jobs import find_step_job, run_step_job
from dedup_clone.publish.bootstrap.existing_export import drop_export, export_existing
from dedup_clone.publish.bootstrap.existing_table import (
    BootstrapRecord,
    observe_table,
    read_bootstrap_record,
    require_unchanged,
    save_bootstrap_record,
)
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.planning.staging_table import set_clustering_of_target, set_layout_of_staging
from dedup_clone.publish.rebuild.rebuild_plan import RebuildRequest, copy_configuration, require_rebuildable
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec

COPY_STEP = "copy"


def resolve_rebuild(services: Services, request: RebuildRequest, live_shown: int) -> PublishSpec:
    """Recover a dead run and acquire the lease. Returns the run's spec.

    `live_shown`: the generation that was live in the preview. Raises ConfigurationError when another is live by now or
    the rebuild is not possible; FeedHeldElsewhere, LeaseHeld, LostRace; and what `recover` raises.
    """
    services.current.read_for(services.environment)
    recover(services, dag_id=request.dag_id, run_id=request.run_id)
    live = require_rebuildable(services, request)
    if live.generation != live_shown:
        raise ConfigurationError(
            f"Generation [{live.generation}] of [{services.feed.feed}] is live by now, expected [{live_shown}], for "
            f"which the rebuild was approved. Nothing was changed: trigger it again."
        )
    intent = services.current.acquire_lease(
        services.environment,
        live.generation,
        Kind.REBUILD,
        dag_id=request.dag_id,
        run_id=request.run_id,
        now=services.now(),
    )
    services.log(f"acquired the lease for attempt [{intent.attempt}]: rebuild", generation=intent.generation)
    return PublishSpec(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=Engine.SPARK,
        snapshot_id=live.snapshot_id,
        request_uri=services.store.uri(services.layout.request(intent.attempt)),
        reason=f"rebuild: {request.reason}",
        rebuilds=True,
    )


def export_rebuilt(services: Services, request: RebuildRequest, spec: PublishSpec) -> None:
    """Export target's rows, and write the dedup job's request. Safe to repeat.

    If columns change, the rows are first copied into the incoming table, which has the declared columns, and exported
    from there.

    Raises BootstrapRefused, LostRace, JobFailed, and ConfigurationError for a value that does not fit its new type.
    """
    live, names = services.manifests.read(spec.parent or 0), services.names
    configuration = copy_configuration(services, live, request)
    if configuration is not None:
        if find_step_job(services, spec.attempt, COPY_STEP).metadata is None:
            services.current.require_intent(spec.attempt)
            services.warehouse.alterations.drop(names.incoming_table)
        try:
            run_step_job(services, spec.attempt, COPY_STEP, configuration)
        except JobFailed as error:
            if not error.is_invalid_input:
                raise
            raise ConfigurationError(
                f"Rows of [{services.feed.target}] do not fit the declared columns: {error.message}. Nothing was "
                f"changed. Declare a type that holds them, or let a snapshot correct them before the rebuild."
            ) from error
    table = names.target_table if configuration is None else names.incoming_table
    existing = observe_table(services, names.dataset, table, is_target=configuration is None)
    save_bootstrap_record(services, spec.attempt, BootstrapRecord(existing, request.duplicates, request.compared_dates))
    export_existing(services, spec.attempt)


def prepare_rebuilt_staging(services: Services, spec: PublishSpec) -> None:
    """After the dedup job has accepted the rows, give staging the declared columns. Safe to repeat."""
    _, manifest = read_candidate(services, spec)
    set_layout_of_staging(services, spec.attempt, manifest)


def prepare_swap(services: Services, spec: PublishSpec) -> None:
    """Right before the swap, check that nobody changed the exported table, and give target the declared clustering.

    Raises BootstrapRefused. Safe to repeat.
    """
    existing, table = read_bootstrap_record(services, spec.attempt).existing, services.feed.table.to_contract()
    target, live = services.warehouse.table(services.feed.target), services.manifests.read(spec.parent or 0)
    is_clustered = target is not None and target.cluster_by == table.cluster_by != live.table.cluster_by
    # If target has the declared clustering and not the live generation's, an earlier try of this task set it. That
    # changed the table's version.
    if not (existing.is_target and is_clustered):
        require_unchanged(services, existing)
    set_clustering_of_target(services, table)


def delete_copies(services: Services, spec: PublishSpec) -> int:
    """Delete the copied rows and the exported files, which nothing reads after the commit; return how many files."""
    services.warehouse.alterations.drop(services.names.incoming_table)
    return drop_export(services, spec.attempt)
