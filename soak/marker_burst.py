"""Lands many markers at once. Each must get a publish run of its own, but one swap must publish all deliveries."""

from __future__ import annotations

import time

from devstack.demo.delivery_progress import publish_run_id
from devstack.producer.landing import Landed
from soak.consistency import find_problems
from soak.delivery_producer import DeliveryProducer
from soak.report import Section
from testkit.proxied_stack import ProxiedStack
from testkit.waiting import wait_for

MARKERS = 12
TIMEOUT_S = 900.0
AIRFLOW_PARTS = ("scheduler", "triggerer", "dag_processor", "api_server")
MAX_SPREAD_S = 1.0  # between the first and the last marker, so that one publish can include all deliveries


def run(
    stack: ProxiedStack, deliveries: DeliveryProducer, feed: str, *, airflow_is_down: bool, markers: int = MARKERS
) -> Section:
    """Land snapshots whose markers arrive within MAX_SPREAD_S, wait for their runs, and check the feed.

    `airflow_is_down`: whether Airflow is stopped while the markers arrive, and started after that.
    """
    published_before = len(_published(stack, feed))
    if airflow_is_down:
        for part in AIRFLOW_PARTS:
            stack.stop_part(part)
    landed = deliveries.land_at_once(feed, markers)
    if airflow_is_down:
        for part in AIRFLOW_PARTS:
            stack.supervisor.start(part)
    began = time.monotonic()
    wait_for(lambda: _all_ended(stack, feed, landed), f"all {markers} runs have ended", TIMEOUT_S)
    seconds = time.monotonic() - began
    wait_for(stack.are_healthy, "every part of the stack is healthy", TIMEOUT_S)
    swaps = len(_published(stack, feed)) - published_before
    arrivals = [one.arrived_at for one in landed]
    spread_s = (max(arrivals) - min(arrivals)).total_seconds()
    states = {stack.run_state(feed, publish_run_id(one)) for one in landed}
    found = find_problems(stack, feed, deliveries.landed[feed])
    if states != {"success"}:
        found.append(f"runs ended as {sorted(str(state) for state in states)}, expected [success] only")
    if swaps != 1:
        found.append(f"{swaps} swaps, expected 1")
    if spread_s > MAX_SPREAD_S:
        found.append(f"the markers came within {spread_s:.1f} s, expected {MAX_SPREAD_S:.0f} s: land them again")
    facts = (
        f"{markers} markers within {spread_s:.2f} s, {markers} runs ended in {seconds:.0f} s",
        f"{swaps} swap(s); runs whose delivery was already published were skipped, and named its generation",
    )
    when = "while Airflow is down, then started" if airflow_is_down else "while Airflow runs"
    return Section(f"{markers} markers at once {when}", facts, tuple(found))


def _published(stack: ProxiedStack, feed: str) -> list[int]:
    return [record.generation for record in stack.ledger(feed) if record.swapped_at is not None]


def _all_ended(stack: ProxiedStack, feed: str, landed: list[Landed]) -> bool:
    return all(stack.run_state(feed, publish_run_id(one)) in ("success", "failed") for one in landed)
