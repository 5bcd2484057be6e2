"""`python -m deploy.recover FEED`: shows how to recover a feed with lost records; `--apply` does it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dedup_clone.operations.lost_records import RecoveryPlan, carry_out, plan_recovery
from dedup_clone.publish.services import Services
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed
from deploy.command_errors import run_command_line
from deploy.environment_settings import REPOSITORY
from deploy.live_services import open_live_clients

DAGS = REPOSITORY / "dags"


def main(arguments: list[str], dags: Path = DAGS) -> int:
    """Returns the exit status: 0, or 1 after an error, such as a record or a feed file that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m deploy.recover", description=__doc__)
    parser.add_argument("feed", help="the feed's name")
    parser.add_argument("--apply", action="store_true", help="carry the plan out")
    parser.add_argument("--table-is-gone", action="store_true", help="target was deleted and cannot be restored")
    options = parser.parse_args(arguments)

    def run() -> int:
        services = feed_services(options.feed, dags)
        plan = plan_recovery(services, table_is_gone=options.table_is_gone)
        print(plan_as_text(services, plan))
        if options.apply and plan.changes_anything:
            carry_out(services, plan, table_is_gone=options.table_is_gone)
            print("Done.")
        elif plan.changes_anything:
            print("Nothing was changed. APPLY=1 carries this out.")
        return 0

    return run_command_line("recover", run)


def feed_services(feed_name: str, dags: Path) -> Services:
    """The feed's services in the profile that DEDUP_CLONE_PROFILE names. Raises ConfigurationError."""
    feed = read_feed(dags / "feeds" / f"{feed_name}.yaml")
    return open_live_clients(read_deployment(dags / "profiles")).services(feed)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
