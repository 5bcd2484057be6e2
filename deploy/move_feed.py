"""The verb `move-feed`: lets another Airflow environment publish a feed.

Pause the feed's DAGs in the former one first. While a run works on the feed, it is not moved.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dedup_clone.state.current import CurrentFile
from deploy.environment_settings import read_profile
from deploy.live_services import open_live_clients


def run(options: argparse.Namespace, dags: Path) -> int:
    """Raises an error for a feed that a run works on."""
    current = CurrentFile(open_live_clients(read_profile(dags)).state, options.feed)
    current.move_feed(options.former, options.environment, former_is_gone=options.from_is_gone)
    print(
        f"Environment [{options.environment}] publishes feed [{options.feed}]. Leave the feed's DAGs paused in "
        f"[{options.former}]. Unpause [{options.feed}_watch] in [{options.environment}]: it starts a run for each "
        f"delivery that waits, within five minutes."
    )
    return 0
