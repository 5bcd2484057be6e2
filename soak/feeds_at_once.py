"""Publishes many feeds at once, with BigQuery's limits in the stand-in. No publish may fail, no row may be missing."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from devstack.demo.delivery_progress import publish_run_id
from soak.consistency import find_problems
from soak.delivery_producer import DeliveryProducer
from soak.many_feeds import write_feeds
from soak.report import Section
from testkit.proxied_stack import ProxiedStack, running_stack
from testkit.waiting import wait_for

FEEDS_AT_ONCE = 24
TIMEOUT_S = 1800.0


def run(folder: Path, *, feeds: int = FEEDS_AT_ONCE) -> Section:
    """Start a stack below `folder`, land a delivery of each feed, wait for their publishes, and check all feeds.

    `feeds`: the number of feeds.
    """
    names = [f"at_once_{number:02}" for number in range(feeds)]
    with running_stack(folder, prepare_dags=partial(write_feeds, names=names)) as stack:
        deliveries = DeliveryProducer(stack.landing)
        landed = {name: deliveries.land(name) for name in names}
        began = time.monotonic()
        states = partial(_run_states, stack, {name: publish_run_id(delivery) for name, delivery in landed.items()})
        wait_for(lambda: set(states()) <= {"success", "failed"}, "all publishes have ended", TIMEOUT_S)
        seconds = time.monotonic() - began
        problems = [f"{states().count('failed')} publishes failed"] if "failed" in states() else []
        for name in names:
            problems += [f"{name}: {problem}" for problem in find_problems(stack, name, deliveries.landed[name])]
    fact = f"{feeds} feeds with one delivery each, all publishes had ended after {seconds:.0f} s"
    return Section("Feeds that publish at once", (fact,), tuple(problems))


def _run_states(stack: ProxiedStack, runs: dict[str, str]) -> list[str | None]:
    """The state of each run. `runs`: the run id of each feed."""
    return [stack.run_state(feed, run_id) for feed, run_id in runs.items()]
