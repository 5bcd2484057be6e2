"""Runs readers while a scenario publishes to their table, and checks every answer against the scenario's swaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import quantiles

from soak.readers.expected_answers import ObservedAnswer, find_wrong_answers
from soak.readers.oracle_publisher import OraclePublisher
from soak.readers.reader_process import Readers
from soak.readers.stand_in_servers import Servers
from soak.report import Section

PROBLEMS_SHOWN = 10
MIN_RATE_SHARE = 0.99  # of the rate at which the readers should query


@dataclass(frozen=True)
class Observation:
    """What readers saw. `answers_by_reader`: each reader's answers in order. `seconds`: how long the readers ran.

    `target_rate`: the queries per second that all readers together should run.
    """

    answers_by_reader: list[list[ObservedAnswer]]
    seconds: float
    target_rate: float

    @property
    def rate(self) -> float:
        """The queries per second that all readers together ran."""
        return sum(map(len, self.answers_by_reader)) / self.seconds

    def rate_problems(self) -> list[str]:
        """A sentence if the readers ran fewer queries than they should; else none."""
        if self.rate >= self.target_rate * MIN_RATE_SHARE:
            return []
        return [f"{self.rate:.1f} queries per second, expected {self.target_rate:.0f}: run it on a quiet machine"]


def observe(servers: Servers, per_second: float, scenario: Callable[[], None]) -> Observation:
    """Run readers for as long as `scenario` takes, with `per_second` queries a second by all readers together.

    The readers' table must exist already.
    """
    readers = Readers(servers.new_client, f"warehouse.{servers.feed.feed.target}", per_second)
    readers.start()
    try:
        scenario()
    finally:
        answers_by_reader = readers.stop()
    return Observation(answers_by_reader, readers.seconds, per_second)


def make_section(name: str, publisher: OraclePublisher, observation: Observation, problems: Iterable[str]) -> Section:
    """A section of the report. Its problems are `problems` and the readers' wrong answers."""
    swaps, by_reader = publisher.swaps, observation.answers_by_reader
    found = [*problems, *(problem for observed in by_reader for problem in find_wrong_answers(observed, swaps))]
    all_observed = [answer for observed in by_reader for answer in observed]
    durations = [answer.ended - answer.began for answer in all_observed]
    percentiles = quantiles(durations, n=100) if len(durations) > 1 else [0.0] * 99
    median, p99 = percentiles[49], percentiles[98]
    if len(durations) <= 1:
        found.append(f"the readers got {len(durations)} answers: read their log")
    contents = {observed.answer for observed in all_observed}
    generations = sum(any(expected in contents for expected in swap.expected_answers.values()) for swap in swaps)
    events = ", ".join(f"{count} x {event}" for event, count in sorted(publisher.events.items()))
    facts = (
        f"{len(swaps)} swaps in {observation.seconds:.0f} s; {events}",
        f"{len(all_observed)} queries by {len(by_reader)} readers, {observation.rate:.1f} per second "
        f"(asked for: {observation.target_rate:.0f}); "
        f"median {median * 1000:.0f} ms, 99 % within {p99 * 1000:.0f} ms",
        f"answers of {generations} of {len(swaps)} generations were seen",
    )
    if len(found) > PROBLEMS_SHOWN:
        found = [*found[:PROBLEMS_SHOWN], f"… and {len(found) - PROBLEMS_SHOWN} more"]
    return Section(name, facts, tuple(found))
