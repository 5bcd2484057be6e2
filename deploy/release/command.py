"""The verb `release`: shows what a release would change, and makes the changes after a confirmation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.settings.deployment import Deployment
from deploy.environment_settings import REPOSITORY, read_environment, read_profile
from deploy.live_services import open_live_clients
from deploy.plan import plan_all
from deploy.release.release import Release
from deploy.release.release_content import make_release
from deploy.release.release_plan import plan_as_text


def run(options: argparse.Namespace, dags: Path) -> int:
    """Returns the exit status: 0, or 1 if changes were refused or not confirmed."""
    from google.cloud import storage

    environment, profile = read_environment(), read_profile(dags)
    buckets = {"environment_bucket": environment.bucket, "state_bucket": profile.state_bucket}
    items = make_release(REPOSITORY, **buckets)
    release = Release(items, storage.Client(project=profile.project), **buckets)
    plan = release.plan()
    print(f"{len(items)} objects for environment [{environment.name}] in project [{profile.project}]:")
    print(plan_as_text(plan))
    refused = _show_table_changes(profile, dags)
    if options.plan:
        return 0
    if plan.changes and refused:
        print(f"The next publish of {', '.join(refused)} will be refused, for the problems above.")
        if options.yes and not options.with_problems:
            print(
                "Nothing was changed: correct the feed files, or add `--with-problems` (with make: `WITH_PROBLEMS=1`)."
            )
            return 1
    if plan.changes and not options.yes and not _is_confirmed():
        print("Nothing was changed.")
        return 1
    release.apply(plan, take_over=options.take_over)
    print("Deployed. Airflow reads the new files within a few minutes." if plan.changes else "Nothing had to change.")
    return 0


def _show_table_changes(profile: Deployment, dags: Path) -> list[str]:
    """Show what the feed files of the release change on published tables.

    Returns the feeds whose next publish will be refused; none if the tables could not be read.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        plans = plan_all(open_live_clients(profile), sorted((dags / "feeds").glob("*.yaml")))
    except (DedupCloneError, GoogleAPIError, GoogleAuthError, RequestException) as error:
        print(f"The feed files could not be compared with the tables, `make plan` does that alone: {error}")
        return []
    print("\n".join(map(str, plans)))
    return [plan.feed for plan in plans if plan.problems]


def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        print("There is no terminal to ask on: add `--yes` (with make: `YES=1`) to make the changes.")
        return False
    return input("Make these changes? [y/N] ").strip().lower() in ("y", "yes")
