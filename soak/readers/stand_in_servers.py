"""Runs fake-gcs-server and the BigQuery stand-in for the readers' scenarios, with the feed of the worked example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dedup_clone.settings.feed import read_feed
from devstack.stack.layout import CHECKOUT
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.server_clients import bigquery_client, open_clients


@dataclass(frozen=True)
class Servers:
    """The running servers.

    `feed`: publishes on these servers. `new_client`: returns a new BigQuery client; it can be pickled.
    """

    feed: FeedOnStandIn
    stand_in_url: str
    new_client: Callable[[], Any]


@contextmanager
def open_servers(folder: Path) -> Iterator[Servers]:
    """Run the servers during the `with` block. The tables and logs are below `folder`, objects are in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    feed = read_feed(CHECKOUT / "dags" / "feeds" / "worked_example.yaml")
    with open_clients(folder) as (storage, bigquery):
        url = str(bigquery._connection.API_BASE_URL)
        yield Servers(FeedOnStandIn(feed, storage, bigquery), url, partial(bigquery_client, url))
