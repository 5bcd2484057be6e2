"""Retires a feed, and reads which objects and exported rows are left of it."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq

from dedup_clone.publish.retirement.retire_feed import RetirementRequest, retire_feed
from dedup_clone.state.retired import Retirement, TargetAction
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row

ROWS = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]


def request(target: TargetAction) -> RetirementRequest:
    return RetirementRequest("feed_retire", "retire", target, "no longer needed")


def retire(world: FeedOnStandIn, target: TargetAction) -> Retirement:
    return retire_feed(world.services, request(target))


def kept(world: FeedOnStandIn) -> list[str]:
    """The names of the objects and subfolders that are left in the feed's folder."""
    names = [info.name for info in world.services.store.objects(f"{world.feed.feed}/")]
    return sorted({name.split("/")[1] for name in names})


def exported_rows(world: FeedOnStandIn, record: Retirement) -> list[tuple[Any, ...]]:
    """The rows that the retirement has exported, in the form of FeedOnStandIn.rows."""
    folder = f"{world.feed.feed}/data/{record.attempt}-export/"
    files = [b.download_as_bytes() for b in world.storage.list_blobs("state", prefix=folder)]
    return expected(*(r for content in files for r in pq.read_table(io.BytesIO(content)).to_pylist()))
