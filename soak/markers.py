"""Many markers at once: a run for each, each delivery accounted for, as few swaps as the lease allows."""

from __future__ import annotations

import time

from devstack.demo.follow import publish_run
from devstack.producer.landing import Landed
from soak import judge
from soak.deliveries import Deliveries
from soak.report import Section
from soak.stack import SoakStack, wait_for

MARKERS = 12
PATIENCE_S = 900.0
AIRFLOW_PARTS = ("scheduler", "triggerer", "dag_processor", "api_server")
WITHIN_S = 1.0


def run(
    stack: SoakStack, deliveries: Deliveries, feed: str, *, airflow_is_down: bool, markers: int = MARKERS
) -> Section:
    """Land snapshots whose markers come within a second, and wait for their runs."""
    published_before = len(_published(stack, feed))
    if airflow_is_down:
        for part in AIRFLOW_PARTS:
            stack.stop_part(part)
    landed = deliveries.land_at_once(feed, markers)
    if airflow_is_down:
        for part in AIRFLOW_PARTS:
            stack.supervisor.start(part)
    began = time.monotonic()
    wait_for(lambda: _all_ended(stack, feed, landed), PATIENCE_S, f"all {markers} runs have ended")
    seconds = time.monotonic() - began
    wait_for(stack.are_healthy, PATIENCE_S, "every part of the stack is healthy")
    swaps = len(_published(stack, feed)) - published_before
    arrivals = [one.arrived_at for one in landed]
    spread = (max(arrivals) - min(arrivals)).total_seconds()
    states = {stack.run_state(feed, publish_run(one)) for one in landed}
    found = judge.problems(stack, feed, deliveries.of[feed])
    if states != {"success"}:
        found.append(f"runs ended as {sorted(str(state) for state in states)}, expected [success] only")
    if swaps != 1:
        found.append(f"{swaps} swaps, expected 1")
    if spread > WITHIN_S:
        found.append(f"the markers came within {spread:.1f} s, expected {WITHIN_S:.0f} s: land them again")
    facts = (
        f"{markers} markers within {spread:.2f} s, {markers} runs ended in {seconds:.0f} s",
        f"{swaps} swap(s); runs whose delivery was in already were skipped by name of the generation",
    )
    when = "while Airflow is down, then started" if airflow_is_down else "while Airflow runs"
    return Section(f"{markers} markers at once {when}", facts, tuple(found))


def _published(stack: SoakStack, feed: str) -> list[int]:
    return [record.generation for record in stack.ledger(feed) if record.swapped_at is not None]


def _all_ended(stack: SoakStack, feed: str, landed: list[Landed]) -> bool:
    return all(stack.run_state(feed, publish_run(one)) in ("success", "failed") for one in landed)
