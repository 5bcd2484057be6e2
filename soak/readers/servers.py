"""A feed on servers of its own: storage and the BigQuery stand-in, always stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dedup_clone.settings.feed import read_feed
from devstack.stack.layout import CHECKOUT
from tests.contract.publish.feed_world import FeedWorld
from tests.contract.publish.servers import bigquery_client, open_clients


@dataclass(frozen=True)
class Servers:
    """`new_client` makes one more client of the stand-in; it pickles, so that another process can call it."""

    world: FeedWorld
    stand_in_url: str
    new_client: Callable[[], Any]


@contextmanager
def open_servers(folder: Path) -> Iterator[Servers]:
    """Servers that keep everything below `folder`, with the worked example as their feed."""
    folder.mkdir(parents=True, exist_ok=True)
    feed = read_feed(CHECKOUT / "dags" / "feeds" / "worked_example.yaml")
    with open_clients(folder) as (storage, bigquery):
        url = str(bigquery._connection.API_BASE_URL)
        yield Servers(FeedWorld(feed, storage, bigquery), url, partial(bigquery_client, url))
