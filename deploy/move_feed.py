"""`python -m deploy.move_feed FEED --from A --to B`: lets Airflow environment B publish the feed instead of A.

Pause the feed's DAGs in A first. While a run works on the feed, it is not moved.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dedup_clone.settings.deployment import read_deployment
from dedup_clone.state.current import CurrentFile
from deploy.command_errors import run_command_line
from deploy.environment_settings import REPOSITORY
from deploy.live_services import open_live_clients

DAGS = REPOSITORY / "dags"


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
        current = CurrentFile(state, options.feed)
        current.move_feed(options.former, options.environment, former_is_gone=options.from_is_gone)
        print(
            f"Environment [{options.environment}] publishes feed [{options.feed}]. Leave the feed's DAGs paused in "
            f"[{options.former}]. Unpause [{options.feed}_watch] in [{options.environment}]: it starts a run for each "
            f"delivery that waits, within five minutes."
        )
        return 0

    return run_command_line("move_feed", run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
