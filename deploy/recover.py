"""The verb `recover`: shows how to recover a feed with lost records; `--apply` does it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dedup_clone.operations.lost_records import RecoveryPlan, carry_out, plan_recovery
from dedup_clone.publish.services import Services
from deploy.live_services import feed_services


def run(options: argparse.Namespace, dags: Path) -> int:
    """Raises an error of this project for a record or a feed file that cannot be read."""
    services = feed_services(options.feed, dags)
    plan = plan_recovery(services, table_is_gone=options.table_is_gone)
    print(plan_as_text(services, plan))
    if options.apply and plan.changes_anything:
        carry_out(services, plan, table_is_gone=options.table_is_gone)
        print("Done.")
    elif plan.changes_anything:
        print("Nothing was changed. Add `--apply` to carry this out.")
    return 0


def plan_as_text(services: Services, plan: RecoveryPlan) -> str:
    """The plan as the operator reads it."""
    lines, candidate = [], plan.candidate and plan.candidate.manifest
    if candidate:
        lines.append(f"Write the manifest of generation {candidate.generation}, from attempt {candidate.attempt}")
    if plan.current is not None:
        live = f"generation {plan.current.generation}" if plan.current.generation else "no generation"
        lines.append(f"Write {services.store.uri(services.layout.current)}: {live} is live, no run holds the lease")
    if plan.swap is not None:
        lines.append(
            f"Make {services.names.dataset}.{services.feed.target} again: CLONE {services.feed.staging} as of "
            f"{plan.swap.checked_at:%Y-%m-%d %H:%M:%S} UTC"
        )
    if plan.removes_label:
        lines.append(f"Remove the generation label of {services.names.dataset}.{services.feed.target}")
    lines = lines or ["There is nothing that this command writes."]
    lines += [f"Not known any more: {item}" for item in plan.unknown]
    return "\n".join([*lines, f"Then: {plan.next_step}" if plan.changes_anything else plan.next_step])
