"""The setup of a world's feed, as the DAGs have it."""

from __future__ import annotations

from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.folders import find_folders
from dedup_clone.settings.deployment import read_deployment
from tests.contract.publish.feed_world import REPOSITORY, FeedWorld


def setup_of(world: FeedWorld) -> FeedSetup:
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    return FeedSetup(world.feed, deployment, find_folders(REPOSITORY / "dags"))
