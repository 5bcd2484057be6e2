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

MARKER_COUNT = 12
TIMEOUT_S = 900.0
AIRFLOW_PARTS = ("scheduler", "triggerer", "dag_processor", "api_server")
MAX_SPREAD_S = 1.0  # between the first and the last marker, so that one publish can include all deliveries


def run(
    stack: ProxiedStack,
    deliveries: DeliveryProducer,
    feed: str,
    *,
    is_airflow_down: bool,
    marker_count: int = MARKER_COUNT,
) -> Section:
    """Land snapshots whose markers arrive within MAX_SPREAD_S, wait for their runs, and check the feed.

    `is_airflow_down`: whether Airflow is stopped before the markers arrive, and started afterwards.
    """
    swaps_before = len(_swapped_generations(stack, feed))
    if is_airflow_down:
        for part in AIRFLOW_PARTS:
            stack.stop_part(part)
    landed = deliveries.land_at_once(feed, marker_count)
    if is_airflow_down:
        for part in AIRFLOW_PARTS:
            stack.supervisor.start(part)
    began = time.monotonic()
    wait_for(lambda: _have_all_ended(stack, feed, landed), f"all {marker_count} runs have ended", TIMEOUT_S)
    seconds = time.monotonic() - began
    wait_for(stack.are_healthy, "every part of the stack is healthy", TIMEOUT_S)
    swap_count = len(_swapped_generations(stack, feed)) - swaps_before
    arrivals = [delivery.arrived_at for delivery in landed]
    spread_s = (max(arrivals) - min(arrivals)).total_seconds()
    states = {stack.run_state(feed, publish_run_id(delivery)) for delivery in landed}
    skipped = sum(_was_skipped(stack, feed, delivery) for delivery in landed)
    problems = find_problems(stack, feed, deliveries.landed[feed])
    if states != {"success"}:
        problems.append(f"runs ended as {sorted(str(state) for state in states)}, expected [success] only")
    if swap_count != 1:
        problems.append(f"{swap_count} swaps, expected 1")
    if spread_s > MAX_SPREAD_S:
        problems.append(f"the markers came within {spread_s:.1f} s, expected {MAX_SPREAD_S:.0f} s: land them again")
    facts = (
        f"{marker_count} markers within {spread_s:.2f} s, {marker_count} runs ended in {seconds:.0f} s",
        f"{swap_count} swap(s); {skipped} run(s) were skipped, because an earlier run had published their deliveries",
    )
    when = "while Airflow is down, then started" if is_airflow_down else "while Airflow runs"
    return Section(f"{marker_count} markers at once {when}", facts, tuple(problems))


def _swapped_generations(stack: ProxiedStack, feed: str) -> list[int]:
    return [record.generation for record in stack.ledger(feed) if record.swapped_at is not None]


def _was_skipped(stack: ProxiedStack, feed: str, delivery: Landed) -> bool:
    """Whether the delivery's run published nothing: the tasks after its first one were skipped."""
    tasks = stack.tasks(feed, publish_run_id(delivery))
    return any(task.task_id == "dedup_snapshot" and task.state == "skipped" for task in tasks)


def _have_all_ended(stack: ProxiedStack, feed: str, landed: list[Landed]) -> bool:
    return all(stack.run_state(feed, publish_run_id(delivery)) in ("success", "failed") for delivery in landed)
