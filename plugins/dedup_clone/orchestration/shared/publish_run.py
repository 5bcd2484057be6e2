"""How the watch DAG names the publish runs of a delivery, and how many of them it starts."""

from __future__ import annotations

from dedup_clone.contract.delivery import Delivery

AUTOMATIC = "publish__"  # how the ids of runs begin that the watch DAG starts
# After this many runs that did not publish their delivery, the watchdog reports the delivery. A further run is then
# started only if the last one failed before it read rows, because only such runs are cheap.
RUNS_BEFORE_REPORT = 4
MAX_RUNS = RUNS_BEFORE_REPORT + 24  # the 24: one run an hour for a day, because an outage can last long


def publish_run_id(delivery: Delivery, number: int = 1) -> str:
    """The id of the delivery's `number`-th run. It is not random, so that no run is started twice."""
    first = f"{AUTOMATIC}{delivery.snapshot_id}__{delivery.marker_generation}"
    return first if number == 1 else f"{first}__{number}"


def is_automatic_run(run_id: str, delivery: Delivery) -> bool:
    """Whether the watch DAG started the run, and not a person."""
    return run_id in [publish_run_id(delivery, number) for number in range(1, MAX_RUNS + 1)]
