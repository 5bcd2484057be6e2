"""Makes the FeedSetup of a test's feed with the local profile, as the DAG files do."""

from __future__ import annotations

from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn


def setup_of(world: FeedOnStandIn) -> FeedSetup:
    """The feed's setup, with the feed file and the local profile of this repository."""
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    return FeedSetup(world.feed, deployment, find_folders(REPOSITORY / "dags"))
