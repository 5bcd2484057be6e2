"""Runs the kill matrix: during each of many publishes one process is killed, and every publish must succeed."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil  # type: ignore[import-untyped]  # it ships no types
from google.api_core.exceptions import GoogleAPIError

from dedup_clone.contract.errors import DedupCloneError
from devstack.demo.airflow_api import DemoError
from devstack.demo.delivery_progress import publish_run_id
from devstack.producer.landing import Landed
from soak import consistency, victim_processes
from soak.delivery_producer import DeliveryProducer
from soak.kill_points import KillPoint
from soak.kill_run import FINAL_RUN_STATES, KillRun, MomentMissed
from testkit.errors import HarnessError
from testkit.proxied_stack import ProxiedStack
from testkit.waiting import wait_for

RECOVERY_TIMEOUT_S = 1200.0
# The number of first publishes on a new stack, without a kill. From the third publish on there is old data to prune.
PUBLISHES_BEFORE_FIRST_KILL = 2
# An error of these classes fails only the point in which it occurs: the later points still run.
FAILURES = (HarnessError, DemoError, DedupCloneError, GoogleAPIError, psutil.Error, OSError, LookupError)
FINAL_TASK_STATES = ("success", "skipped", "failed", "upstream_failed", "removed")


@dataclass(frozen=True)
class PointResult:
    """What happened at one point of the matrix.

    The fields are keys of report.json. `point`, `step`, `victim`: the names of the point, of the publish's step and of
    the kind of process. `how`: the description of the moment. `hit`: a text that names the held request and the killed
    process. `recovered_by`: what was restarted, tried again or discarded. `recovered_s`: the seconds from the kill
    until the publish had succeeded and every part of the stack was healthy; None if that did not happen. `seconds`: the
    duration of the point. `problems`: sentences; none if all went well.
    """

    point: str
    step: str
    victim: str
    how: str
    hit: str
    recovered_by: str
    recovered_s: float | None
    seconds: float
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.problems

    @property
    def is_missed(self) -> bool:
        """Whether nothing was killed, because the moment of the point did not come."""
        return any(problem.startswith(MomentMissed.__name__) for problem in self.problems)


@dataclass
class KillMatrix:
    """Runs points one after the other on one stack. Each point lands a delivery and kills a process in its publish.

    `deliveries`: lands the deliveries, and remembers those of earlier points, which the checks need.
    """

    stack: ProxiedStack
    deliveries: DeliveryProducer

    def publish_without_kill(self, feeds: list[str], when: str) -> None:
        """Publish once in each feed without a kill; on a new stack PUBLISHES_BEFORE_FIRST_KILL times.

        Raises HarnessError if a publish fails, because the points would prove nothing on such a stack. `when`: text for
        the error's message.
        """
        for _ in range(1 if self.deliveries.landed else PUBLISHES_BEFORE_FIRST_KILL):
            landed = {feed: self.deliveries.land(feed) for feed in feeds}
            for feed, delivery in landed.items():
                if problems := self._wait_and_check(feed, delivery, time.monotonic())[1]:
                    raise HarnessError(f"The publish {when} went wrong for [{feed}]: {'; '.join(problems)}")

    def run(self, point: KillPoint) -> PointResult:
        """Kill the point's process at its moment, wait for the recovery, and check the feed."""
        began = time.monotonic()
        kill_text, recovered_by, recovered_s = "", "", None
        try:
            kill_run = KillRun(self.stack, point, lambda: self.deliveries.land(point.feed))
            kill_text = kill_run.kill_at_moment()
            recovered_s, problems = self._wait_and_check(point.feed, kill_run.delivery, kill_run.killed_at)
            recovered_by = kill_run.describe_recovery()
        except FAILURES as error:
            problems = [f"{type(error).__name__}: {error}", *self._wait_for_all_runs(point.feed)]
        self._kill_orphaned_workers()
        return PointResult(
            point=point.name,
            step=point.moment.step,
            victim=str(point.victim),
            how=point.moment.description,
            hit=kill_text,
            recovered_by=recovered_by,
            recovered_s=recovered_s,
            seconds=time.monotonic() - began,
            problems=tuple(problems),
        )

    def _wait_and_check(self, feed: str, delivery: Landed, since: float) -> tuple[float | None, list[str]]:
        """Wait until the delivery's publish has succeeded and the stack is healthy, and check the feed.

        Returns the seconds from `since` (a time of `time.monotonic()`) until the stack was healthy, and the problems of
        the feed. The seconds are None if the publish failed.
        """
        run_id = publish_run_id(delivery)
        state = wait_for(partial(self._final_state, feed, run_id), f"run [{run_id}] has ended", RECOVERY_TIMEOUT_S)
        if state != "success":
            tasks = ", ".join(f"{t.task_id} {t.state} (try {t.try_number})" for t in self.stack.tasks(feed, run_id))
            return None, [f"run [{run_id}] ended as [{state}]: {tasks}", *self._find_problems(feed)]
        wait_for(self.stack.are_healthy, "every part of the stack is healthy", RECOVERY_TIMEOUT_S)
        return time.monotonic() - since, self._find_problems(feed)

    def _wait_for_all_runs(self, feed: str) -> list[str]:
        """Wait until the feed's publishes end, so that the next point can start. Returns a sentence if they do not."""
        try:
            for delivery in self.deliveries.landed.get(feed, []):
                run_id = publish_run_id(delivery)
                wait_for(partial(self._final_state, feed, run_id), f"run [{run_id}] has ended", RECOVERY_TIMEOUT_S)
        except FAILURES as error:
            return [f"the feed's publishes did not end: {type(error).__name__}: {error}"]
        return []

    def _find_problems(self, feed: str) -> list[str]:
        return consistency.find_problems(self.stack, feed, self.deliveries.landed[feed])

    def _final_state(self, feed: str, run_id: str) -> str | None:
        """The state of a run that has ended with all its tasks; None before, or if Airflow does not answer."""
        state, tasks = self.stack.run_state(feed, run_id), self.stack.tasks(feed, run_id)
        have_ended = bool(tasks) and all(task.state in FINAL_TASK_STATES for task in tasks)
        return state if state in FINAL_RUN_STATES and have_ended else None

    def _kill_orphaned_workers(self) -> None:
        """Kill the workers of LocalExecutor that outlived a killed scheduler. They would wait for tasks for ever."""
        scheduler = self.stack.part_states()["scheduler"].pid

        def is_orphan(process: psutil.Process) -> bool:
            with suppress(psutil.Error):
                title = " ".join(process.cmdline())
                return "LocalExecutor" in title and process.ppid() != scheduler
            return False

        victim_processes.kill_matching(self.stack, is_orphan)
