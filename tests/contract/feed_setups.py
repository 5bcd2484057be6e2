"""The setup of a world's feed, as the DAGs have it."""

from __future__ import annotations

from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn


def setup_of(world: FeedOnStandIn) -> FeedSetup:
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    return FeedSetup(world.feed, deployment, find_folders(REPOSITORY / "dags"))
