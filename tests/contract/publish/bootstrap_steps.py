"""Names that test_killed_anywhere.py and test_another_partition_column.py use. Delete this file once they do not."""

from __future__ import annotations

from typing import Any

from testkit import runs
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.contract.publish.existing_tables import MAINTAINED as MAINTAINED
from tests.contract.publish.existing_tables import maintain as maintain


def bootstrap(world: FeedOnStandIn) -> Any:
    return runs.bootstrap(world).finish()
