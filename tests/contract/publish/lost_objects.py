"""Deletes or damages a feed's records."""

from __future__ import annotations

from testkit.feed_on_stand_in import FeedOnStandIn

DAMAGE = '{"feed": '


def path(world: FeedOnStandIn, name: str) -> str:
    return f"{world.feed.feed}/{name}"


def lose(world: FeedOnStandIn, *prefixes: str) -> None:
    for prefix in prefixes:
        world.services.store.delete_prefix(path(world, prefix))


def damage(world: FeedOnStandIn, *prefixes: str) -> None:
    for prefix in prefixes:
        names = [info.name for info in world.services.store.objects(path(world, prefix))]
        assert names
        for name in names:
            world.services.store.put(name, DAMAGE)
