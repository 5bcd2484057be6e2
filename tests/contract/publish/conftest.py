"""Makes a feed for a bootstrap."""

from __future__ import annotations

import pytest

from testkit.feed_on_stand_in import FeedOnStandIn
from tests.contract.publish.existing_tables import maintain


@pytest.fixture
def maintained(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed whose target was maintained by MERGE statements, for a bootstrap."""
    maintain(world)
    return world
