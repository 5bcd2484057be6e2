"""The verb `plan`: compares feed files with the published tables, and says what the next publishes will do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError, ContractViolation, JobFailed
from dedup_clone.operations.feed_plan import FeedPlan, plan_feed
from dedup_clone.publish.declared_form import approve_retention
from dedup_clone.publish.services import Clients
from dedup_clone.settings.feed import read_feed
from dedup_clone.state.current import CurrentFile
from deploy.environment_settings import read_profile
from deploy.live_services import live_services, open_live_clients

NOTHING, PROBLEMS, CHANGES = 0, 1, 2  # exit statuses


def run(options: argparse.Namespace, dags: Path) -> int:
    """Returns the exit status: 0 if nothing changes, 2 if something does, 1 for problems."""
    if options.apply and not options.feed:
        print("plan: a shorter retention is approved for one feed at a time: add `--feed`.", file=sys.stderr)
        return PROBLEMS
    files = [dags / "feeds" / f"{options.feed}.yaml"] if options.feed else sorted((dags / "feeds").glob("*.yaml"))
    clients = open_live_clients(read_profile(dags))
    if options.apply:
        approve_retention(live_services(clients, read_feed(files[0])))
        print("The shorter retention is approved: staging has it from now on, target follows with the next publish.")
    plans = list(plan_feeds(clients, files)) if options.feed else plan_all(clients, files)
    print("\n".join(map(str, plans)))
    if any(plan.problems for plan in plans):
        return PROBLEMS
    return CHANGES if any(plan.changes for plan in plans) else NOTHING


def plan_all(clients: Clients, files: Sequence[Path]) -> list[FeedPlan]:
    """The plans of all feed files, and of the feeds whose file is gone."""
    return [*plan_feeds(clients, files), *plan_removed_feeds(clients, files)]


def plan_feeds(clients: Clients, files: Iterable[Path]) -> Iterator[FeedPlan]:
    """The plans of feed files. An invalid file, an invalid record in state or a failed job is a problem of its feed."""
    clients.warehouse.cache_materialized_views()
    for file in files:
        try:
            yield plan_feed(live_services(clients, read_feed(file)))
        except (ConfigurationError, ContractViolation, JobFailed) as error:
            yield FeedPlan(file.stem, "not compared", problems=(str(error),))


def plan_removed_feeds(clients: Clients, files: Iterable[Path]) -> Iterator[FeedPlan]:
    """A plan for each feed that is not among `files` and has a live generation, or an invalid CURRENT, in state."""
    declared = {file.stem for file in files}
    for folder in clients.state.folders(""):
        name = folder.rstrip("/")
        try:
            generation = None if name in declared else CurrentFile(clients.state, name).read().generation
        except ContractViolation as error:
            yield FeedPlan(name, "not compared", problems=(str(error),))
            continue
        if generation is not None:
            removed = (
                "the feed file is gone: no publish follows, the table stays as it is, and nobody is told that it gets "
                "old. Run dedup_clone_retire before you remove the file (docs/feeds.md, retire a feed)"
            )
            yield FeedPlan(name, f"generation {generation} is live", (removed,))
