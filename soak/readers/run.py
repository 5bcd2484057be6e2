"""The run: readers ask all the time, the course publishes and fails, then every answer is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import quantiles

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.settings.feed import read_feed
from devstack.stack.layout import CHECKOUT
from soak.readers.course import Course, disturbances
from soak.readers.reader import Readers
from soak.readers.timeline import Seen, faults
from soak.report import Section
from tests.contract.publish.feed_world import FeedWorld
from tests.processes import start_fake_gcs, start_stand_in

PROBLEMS_SHOWN = 10
PACE_KEPT = 0.99
# Real BigQuery lets a table change five times in ten seconds; fifty swaps shall not take the whole day.
RAPID = ("--updates-per-10-s", "1000")


def read_during_swaps(
    world: FeedWorld,
    stand_in_url: str,
    new_client: Callable[[], BigQuery],
    *,
    swaps: int,
    per_second: float,
    must_keep_pace: bool,
) -> Section:
    """`swaps` swaps with disturbances in between, while readers ask `per_second` questions a second.

    With `must_keep_pace`, a run in which they could not ask that many has failed.
    """
    course = Course(world, stand_in_url)
    course.publish()
    readers = Readers(new_client, f"warehouse.{world.feed.target}", per_second)
    readers.start()
    try:
        _go_through(course, swaps)
    finally:
        seen = readers.stop()
    return _judge(course, seen, readers.seconds, per_second, must_keep_pace=must_keep_pace)


def _go_through(course: Course, swaps: int) -> None:
    next_disturbance = cycle(disturbances(course))
    while len(course.swaps) < swaps:
        course.publish()
        if len(course.swaps) < swaps - 1:
            next(next_disturbance)()


def _judge(
    course: Course, seen: list[list[Seen]], seconds: float, wanted_per_second: float, *, must_keep_pace: bool
) -> Section:
    problems = [problem for one in seen for problem in faults(one, course.swaps)]
    every = [query for one in seen for query in one]
    durations = sorted(query.ended - query.began for query in every)
    answered = {query.answer for query in every}
    generations = sum(any(a in answered for a in swap.answers.values()) for swap in course.swaps)
    rate = len(every) / seconds
    happened = ", ".join(f"{count} x {what}" for what, count in sorted(course.happened.items()))
    middle, slow = (quantiles(durations, n=100)[at] for at in (49, 98))
    facts = (
        f"{len(course.swaps)} swaps in {seconds:.0f} s; {happened}",
        f"{len(every)} queries by {len(seen)} readers, {rate:.1f} a second (asked for: {wanted_per_second:.0f}); "
        f"median {middle * 1000:.0f} ms, 99 % within {slow * 1000:.0f} ms",
        f"answers of {generations} of {len(course.swaps)} generations were seen",
    )
    if len(problems) > PROBLEMS_SHOWN:
        problems = [*problems[:PROBLEMS_SHOWN], f"… and {len(problems) - PROBLEMS_SHOWN} more"]
    if must_keep_pace and rate < wanted_per_second * PACE_KEPT:
        problems.append(f"{rate:.1f} queries a second, expected {wanted_per_second:.0f}: run it on a quiet machine")
    return Section("Readers during swaps", facts, tuple(problems))


def new_bigquery_client(url: str) -> BigQuery:
    """A client of the stand-in at `url`."""
    return BigQuery(
        project="local-dev",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options=ClientOptions(api_endpoint=url),
    )


@contextmanager
def open_world(folder: Path) -> Iterator[tuple[FeedWorld, str, Callable[[], BigQuery]]]:
    """A feed on servers of its own: storage and the stand-in, always stopped. Also the stand-in's URL, and clients."""
    folder.mkdir(parents=True, exist_ok=True)
    with start_fake_gcs(folder) as gcs, start_stand_in(folder, gcs, options=RAPID) as bigquery:
        new_client = partial(new_bigquery_client, f"http://{bigquery}")
        storage = Storage(
            project="local-dev",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options=ClientOptions(api_endpoint=f"http://{gcs}"),
        )
        for bucket in ("landing", "state"):
            storage.create_bucket(bucket)
        warehouse = new_client()
        warehouse.create_dataset("warehouse")
        feed = read_feed(CHECKOUT / "dags" / "feeds" / "worked_example.yaml")
        yield FeedWorld(feed, storage, warehouse), f"http://{bigquery}", new_client


def run(folder: Path, *, swaps: int, per_second: float, must_keep_pace: bool) -> Section:
    """The whole run, on servers of its own below `folder`."""
    with open_world(folder) as (world, stand_in_url, new_client):
        return read_during_swaps(
            world, stand_in_url, new_client, swaps=swaps, per_second=per_second, must_keep_pace=must_keep_pace
        )
