"""The verb `move-feed`: lets another Airflow environment publish a feed.

Pause the feed's DAGs in the former one first. While a run works on the feed, it is not moved.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from dedup_clone.state.current import Current, CurrentFile
from deploy.environment_settings import read_profile
from deploy.live_services import open_live_clients


def run(options: argparse.Namespace, dags: Path) -> int:
    """Raises an error for a feed that a run works on."""
    former, environment, is_gone = options.former, options.environment, options.from_is_gone
    CurrentFile(open_live_clients(read_profile(dags)).state, options.feed).change(
        lambda current: moved(current, former, environment, former_is_gone=is_gone)
    )
    print(
        f"Environment [{options.environment}] publishes feed [{options.feed}]. Leave the feed's DAGs paused in "
        f"[{options.former}]. Unpause [{options.feed}_watch] in [{options.environment}]: it starts a run "
        f"that publishes all that waits, within five minutes."
    )
    return 0


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
