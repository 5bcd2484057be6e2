"""`python -m deploy.move_feed FEED --from A --to B`: lets Airflow environment B publish the feed instead of A.

Pause the feed's DAGs in A first. While a run works on the feed, it is not moved.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.state.current import Current, CurrentFile
from deploy.command_errors import run_command_line
from deploy.environment_settings import REPOSITORY
from deploy.live_services import open_live_clients

DAGS = REPOSITORY / "dags"


def moved(current: Current, former: str, environment: str, *, former_is_gone: bool) -> Current:
    """CURRENT if `environment` publishes the feed instead of environment `former`.

    Raises ConfigurationError if `former` does not publish the feed, and LeaseHeld while one of its runs works on the
    feed. If `former_is_gone`, the lease does not matter: the next run recovers it like that of a dead run.
    """
    if current.environment not in (former, environment):
        publisher = f"environment [{current.environment}]" if current.environment else "no environment yet"
        raise ConfigurationError(
            f"Feed [{current.feed}] is published by {publisher}, not by [{former}]: nothing was changed."
        )
    if current.intent is not None and current.environment == former and not former_is_gone:
        raise LeaseHeld(
            f"Run [{current.intent.run_id}] of [{current.intent.dag_id}] in environment [{former}] works on feed "
            f"[{current.feed}]: nothing was changed. Pause the feed's DAGs there, wait until the run has ended, then "
            f"run the command again. If that environment is gone for good, add --from-is-gone: the next run commits or "
            f"discards what the run had begun."
        )
    return replace(current, environment=environment)


def main(arguments: list[str], dags: Path = DAGS) -> int:
    """Returns the exit status: 0, or 1 after an error, such as a feed that a run works on."""
    parser = argparse.ArgumentParser(prog="python -m deploy.move_feed", description=__doc__)
    parser.add_argument("feed", help="the feed's name")
    parser.add_argument("--from", dest="former", required=True, help="the environment that publishes the feed now")
    parser.add_argument("--to", dest="environment", required=True, help="the environment that is to publish the feed")
    parser.add_argument(
        "--from-is-gone", action="store_true", help="move the feed even if a run of the former environment has begun"
    )
    options = parser.parse_args(arguments)

    def run() -> int:
        state = open_live_clients(read_deployment(dags / "profiles")).state
        former, environment, is_gone = options.former, options.environment, options.from_is_gone
        CurrentFile(state, options.feed).change(
            lambda current: moved(current, former, environment, former_is_gone=is_gone)
        )
        print(
            f"Environment [{options.environment}] publishes feed [{options.feed}]. Leave the feed's DAGs paused in "
            f"[{options.former}]. Unpause [{options.feed}_watch] in [{options.environment}]: it starts a run for each "
            f"delivery that waits, within five minutes."
        )
        return 0

    return run_command_line("move_feed", run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
