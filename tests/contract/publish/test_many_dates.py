"""How many requests a publish makes outside the dedup job does not depend on the number of dates.

Of a few dates, each file's footer is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import requests
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.publish import commit
from dedup_clone.publish.early_refusals import FOOTERS_READ
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from tests.contract.new_feeds import new_feed
from tests.thoroughness import times

# Requests that depend on what earlier tests left on the shared servers.
_TOLERANCE = 10


@pytest.fixture(autouse=True)
def no_reporting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of all feeds are written in some publishes only: it depends on when another feed wrote them last."""
    monkeypatch.setattr(commit, "try_write_reporting_tables", lambda services, *, holder: None)


def requests_of_publish(feed: FeedOnStandIn, dates: int) -> int:
    name = feed.land(1, [row(1, 1, day=TODAY - timedelta(days=number)) for number in range(dates)])
    with counting() as before:
        spec = feed.resolve(name)
    feed.deduplicate(spec)
    with counting() as after:
        feed.load(spec)
        feed.swap(spec, feed.check(spec))
        feed.commit(spec)
    assert len(feed.rows()) == dates
    return len(before) + len(after)


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the addresses of the requests that are made within the block, without those that wait for a job."""
    made: list[str] = []
    send = requests.Session.request

    def counted(session: requests.Session, method: str, url: str, *rest: object, **options: object) -> object:
        if method != "GET" or not {"jobs", "queries"} & set(url.split("/")):
            made.append(url)
        return send(session, method, url, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests.Session, "request", counted)
        yield made


def test_requests_do_not_grow_with_the_dates(clients: tuple[Storage, BigQuery]) -> None:
    few, many = (
        requests_of_publish(FeedOnStandIn(new_feed(), *clients), dates) for dates in (FOOTERS_READ, times(60, 110))
    )
    assert few > 50
    assert many <= few + _TOLERANCE
