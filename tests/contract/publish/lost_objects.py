"""Deletes or damages a feed's records in the state bucket."""

from __future__ import annotations

from testkit.feed_on_stand_in import FeedOnStandIn

DAMAGE = '{"feed": '  # incomplete JSON, which replaces a record's text


def path(world: FeedOnStandIn, name: str) -> str:
    """The name in the state bucket of an object in the feed's folder."""
    return f"{world.feed.feed}/{name}"


def lose(world: FeedOnStandIn, *prefixes: str) -> None:
    """Delete the objects in the feed's folder whose names begin with one of these."""
    for prefix in prefixes:
        world.services.store.delete_prefix(path(world, prefix))


def damage(world: FeedOnStandIn, *prefixes: str) -> None:
    """Overwrite the objects in the feed's folder whose names begin with one of these."""
    for prefix in prefixes:
        names = [info.name for info in world.services.store.objects(path(world, prefix))]
        assert names
        for name in names:
            world.services.store.put(name, DAMAGE)
