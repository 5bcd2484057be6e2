"""Makes a feed with a new name for each test."""

from __future__ import annotations

import itertools

from dedup_clone.settings.feed import Feed, read_feed
from testkit.feed_on_stand_in import REPOSITORY

_numbers = itertools.count(1)


def new_feed(prefix: str = "") -> Feed:
    """The worked example's feed under a name that no other test uses. `prefix`: of the name."""
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
    name = f"{prefix}feed_{next(_numbers)}"
    landing = shipped.landing.model_copy(update={"prefix": name})
    return shipped.model_copy(update={"feed": name, "landing": landing})
