"""`python -m deploy.release`: shows what a release would change, and carries it out when told to."""

from __future__ import annotations

import argparse
import sys

from dedup_clone.state.store import ObjectStore
from deploy.command import run_command_line
from deploy.release.apply import Release, run_command
from deploy.release.content import make_release
from deploy.release.plan import as_text
from deploy.settings import REPOSITORY, read_environment, read_profile


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("--plan", action="store_true", help="show the plan and change nothing")
    parser.add_argument("--yes", action="store_true", help="carry the plan out without asking")
    parser.add_argument("--take-over", action="store_true", help="replace objects that no release has laid there")
    options = parser.parse_args(arguments)
    return run_command_line("deploy", lambda: _release(options))


def _release(options: argparse.Namespace) -> int:
    from google.cloud import storage

    environment, profile = read_environment(), read_profile()
    client = storage.Client(project=profile.project)
    items = make_release(REPOSITORY, environment_bucket=environment.bucket, state_bucket=profile.state_bucket)
    release = Release(
        items, ObjectStore(client, environment.bucket), ObjectStore(client, profile.state_bucket), run_command
    )
    plan = release.plan()
    print(f"{len(items)} objects for environment [{environment.name}] in project [{profile.project}]:")
    print(as_text(plan))
    if options.plan:
        return 0
    if plan.changes and not options.yes and not _agrees():
        print("Nothing was changed.")
        return 1
    release.apply(plan, take_over=options.take_over)
    print("Deployed. Airflow reads the new files within a few minutes." if plan.changes else "Nothing to do.")
    return 0


def _agrees() -> bool:
    if not sys.stdin.isatty():
        print("No terminal to ask on: add YES=1 to carry it out.")
        return False
    return input("Carry this out? [y/N] ").strip().lower() in ("y", "yes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
