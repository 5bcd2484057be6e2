"""Decides whether engine `cdc` may stream changes into target, where readers see them before the last check.

The checks that read no table must pass first, and target must hold exactly the parent's rows.
"""

from __future__ import annotations

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import check_rows
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.check import check_manifest
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.staging import StagingState
from dedup_clone.warehouse.metadata import to_milliseconds


def reason_for_staging(
    services: Services, spec: PublishSpec, candidate: Candidate, manifest: Manifest, parent: Manifest
) -> str | None:
    """Why changes must be streamed or loaded into staging first, as text; None if target may take them directly."""
    if spec.accepted_checks:
        return "a person must approve accepted checks before readers see anything"
    failed = [r.check for r in check_manifest(services, spec, candidate, manifest, parent) if r.level is Level.FAIL]
    if failed:
        return f"checks fail: [{', '.join(failed)}]"
    if parent.table.columns != manifest.table.columns:
        return "columns were added or changed"
    if not services.manifests.files_exist(parent):
        return f"generation [{parent.generation}] has no files, from which target could be made again"
    return _reason_in_tables(services, parent)


def _reason_in_tables(services: Services, parent: Manifest) -> str | None:
    """Why target or staging, or a missing swap record, forbids streaming into target, as text; None if nothing does."""
    staging, swap = services.staging.read(), find_swap(services, parent.attempt)
    if staging is not None and staging.target_is_mixed(parent.generation):
        return f"target may hold rows of attempt [{staging.attempt}], which was not committed"
    if staging is not None and staging.is_streamed and staging.state is StagingState.LOADING:
        return f"staging may still get rows of attempt [{staging.attempt}], and must be made anew first"
    if swap is None:
        return f"the swap record of generation [{parent.generation}] is missing"
    target = services.warehouse.observe(services.names, services.feed.target)
    if check_rows("target_rows", parent, target).level is not Level.PASS:
        return f"target has other rows than generation [{parent.generation}]"
    published_at = max(swap.checked_at, target.table.created_at)
    # BigQuery gives `created_at` of a clone in milliseconds, so changes are compared in milliseconds.
    if any(to_milliseconds(partition.last_modified_at) > published_at for partition in target.partitions):
        return f"target was changed after generation [{parent.generation}] was checked"
    return None
