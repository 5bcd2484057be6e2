"""Stops storage and BigQuery together during a publish. The publish must succeed after both are started again."""

from __future__ import annotations

import time

from devstack.demo.delivery_progress import publish_run_id
from soak.consistency import find_problems
from soak.delivery_producer import DeliveryProducer
from soak.report import Section
from testkit.proxied_stack import EXAMPLE, ProxiedStack
from testkit.waiting import wait_for

SERVICES = ("bigquery", "fake_gcs")
OUTAGE_S = 60.0
TIMEOUT_S = 1200.0


def run(stack: ProxiedStack, deliveries: DeliveryProducer) -> list[Section]:
    """Land a delivery, stop both services while its publish holds the lease, and start them after OUTAGE_S."""
    run_id = publish_run_id(deliveries.land(EXAMPLE))
    wait_for(lambda: stack.current(EXAMPLE).intent, f"run [{run_id}] has the lease", TIMEOUT_S)
    for part in SERVICES:
        stack.stop_part(part)
    time.sleep(OUTAGE_S)
    for part in SERVICES:
        stack.supervisor.start(part)
    began = time.monotonic()
    wait_for(lambda: stack.run_state(EXAMPLE, run_id) in ("success", "failed"), f"run [{run_id}] has ended", TIMEOUT_S)
    seconds = time.monotonic() - began
    wait_for(stack.are_healthy, "every part of the stack is healthy", TIMEOUT_S)
    tries = {task.task_id: task.try_number for task in stack.tasks(EXAMPLE, run_id) if task.try_number > 1}
    state = stack.run_state(EXAMPLE, run_id)
    problems = [] if state == "success" else [f"run [{run_id}] ended as [{state}], expected [success]"]
    problems += find_problems(stack, EXAMPLE, deliveries.landed[EXAMPLE])
    fact = f"{OUTAGE_S:.0f} s without storage and BigQuery; the publish ended {seconds:.0f} s later, tries: {tries}"
    return [Section("Region down", (fact,), tuple(problems))]
