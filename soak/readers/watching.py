"""Readers ask while something happens; then every answer is judged by the timeline of swaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import quantiles

from soak.readers.publisher import Publisher
from soak.readers.reader import Readers
from soak.readers.servers import Servers
from soak.readers.timeline import Seen, faults
from soak.report import Section

PROBLEMS_SHOWN = 10
PACE_KEPT = 0.99


@dataclass(frozen=True)
class Watched:
    """What each reader saw, in `seconds`; `wanted_per_second` questions were asked for."""

    seen: list[list[Seen]]
    seconds: float
    wanted_per_second: float

    @property
    def rate(self) -> float:
        return sum(map(len, self.seen)) / self.seconds

    @property
    def keeps_pace(self) -> bool:
        return self.rate >= self.wanted_per_second * PACE_KEPT


def watch(servers: Servers, per_second: float, happens: Callable[[], None]) -> Watched:
    """Readers ask for as long as `happens` takes. There must be a table to ask before."""
    readers = Readers(servers.new_client, f"warehouse.{servers.world.feed.target}", per_second)
    readers.start()
    try:
        happens()
    finally:
        seen = readers.stop()
    return Watched(seen, readers.seconds, per_second)


def judged(name: str, publisher: Publisher, watched: Watched, problems: Iterable[str]) -> Section:
    """The section of the report: what readers saw that they must not see, besides what else is wrong."""
    found = [*problems, *(fault for one in watched.seen for fault in faults(one, publisher.swaps))]
    every = [query for one in watched.seen for query in one]
    durations = sorted(query.ended - query.began for query in every)
    answered = {query.answer for query in every}
    generations = sum(any(a in answered for a in swap.answers.values()) for swap in publisher.swaps)
    happened = ", ".join(f"{count} x {what}" for what, count in sorted(publisher.happened.items()))
    middle, slow = (quantiles(durations, n=100)[at] for at in (49, 98))
    facts = (
        f"{len(publisher.swaps)} swaps in {watched.seconds:.0f} s; {happened}",
        f"{len(every)} queries by {len(watched.seen)} readers, {watched.rate:.1f} a second "
        f"(asked for: {watched.wanted_per_second:.0f}); "
        f"median {middle * 1000:.0f} ms, 99 % within {slow * 1000:.0f} ms",
        f"answers of {generations} of {len(publisher.swaps)} generations were seen",
    )
    if len(found) > PROBLEMS_SHOWN:
        found = [*found[:PROBLEMS_SHOWN], f"… and {len(found) - PROBLEMS_SHOWN} more"]
    return Section(name, facts, tuple(found))
