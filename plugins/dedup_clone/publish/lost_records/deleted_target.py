"""Restores a deleted target by repeating the live generation's swap, which clones staging as of a past time."""

from __future__ import annotations

from dedup_clone.contract.records import to_plain
from dedup_clone.publish.attempt_jobs import attempt_job_id, query_configuration
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import SWAP_PARAMETERS, SwapSpec


def find_live_swap(services: Services, generation: int) -> SwapSpec | None:
    """The swap that made the generation live, if it can be repeated.

    None if its record or the manifest is lost, or if staging can no longer be cloned as of the time of the swap.
    """
    manifest = services.manifests.find(generation)
    staging = services.warehouse.table(services.feed.staging)
    if manifest is None or staging is None:
        return None
    swap = find_swap(services, manifest.attempt)
    if swap is None or swap.generation != str(generation) or staging.created_at > swap.checked_at:
        return None
    oldest = services.now() - services.warehouse.time_travel_window()
    return swap if swap.checked_at > oldest else None


def repeat_swap(services: Services, swap: SwapSpec) -> None:
    """Run the statement of the swap again, to make a target that does not exist. Raises JobFailed."""
    names, table = services.names, services.feed.table.to_contract()
    options = services.feed.table.options.to_contract()
    sql = services.warehouse.render("publish/swap_target.sql", names=names, table=table, options=options)
    plain = to_plain(swap)
    parameters = {
        "target": ("STRING", services.feed.target),
        **{name: (kind, str(plain[name])) for name, kind in SWAP_PARAMETERS.items()},
        "parent": ("STRING", ""),  # so that the statement replaces no target whose label names a generation
    }
    job_id = attempt_job_id(services.feed.feed, swap.attempt, "restore", int(services.now().timestamp() * 1000))
    services.warehouse.jobs.start(job_id, query_configuration(services, "restore", sql, parameters))
    services.warehouse.jobs.wait(job_id, poll_s=services.job_poll_s)
