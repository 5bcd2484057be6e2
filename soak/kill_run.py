"""Runs one point of the kill matrix: while a proxy holds a request of a publish, a process of the stack is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from dedup_clone.state.ledger import Outcome
from devstack.demo.delivery_progress import publish_run_id
from devstack.producer.landing import Landed
from soak import victim_processes
from soak.kill_points import KillPoint, Victim
from testkit.errors import HarnessError
from testkit.holding_proxy import Hold
from testkit.proxied_stack import ProxiedStack
from testkit.waiting import POLL_INTERVAL_S, wait_for

MOMENT_TIMEOUT_S = 900.0
FINAL_RUN_STATES = ("success", "failed")


class MomentMissed(HarnessError):
    """The request that the proxy was to hold was never sent. Nothing was killed, so the point proves nothing."""


class KillRun:
    """Calls `land` to land a delivery, stops its publish at the point's moment, and kills the point's process.

    `killed_at`: the time of the kill, in seconds of `time.monotonic()`; 0 before it.
    """

    def __init__(self, stack: ProxiedStack, point: KillPoint, land: Callable[[], Landed]) -> None:
        self.stack = stack
        self.point = point
        self.killed_at = 0.0
        self._land = land
        self._delivery: Landed | None = None
        self._pids_before = {name: part.pid for name, part in stack.part_states().items()}
        self._records_before = len(stack.ledger(point.feed))

    @property
    def delivery(self) -> Landed:
        """The landed delivery. Raises HarnessError before it has landed."""
        if self._delivery is None:
            raise HarnessError(f"Point [{self.point.name}] has not landed its delivery.")
        return self._delivery

    def kill_at_moment(self) -> str:
        """Kill the process at the moment. Returns a text for the report: the held request and the killed process.

        Raises MomentMissed if the moment does not come.
        """
        moment, feed = self.point.moment, self.point.feed
        proxy = self.stack.proxies[moment.service]
        if moment.queued_step:
            pattern = f"dedup_clone-{feed}-.*-{moment.queued_step}-"
            self.stack.add_fault({"match": {"job_id": pattern}, "effect": "queue", "times": 100})
        hold: Hold | None = None
        try:
            if moment.deferred_task:
                self._delivery = self._land()
                self._wait_until_deferred(moment.deferred_task)
            hold = proxy.hold(lambda request: moment.matches(feed, request), moment.when)
            if moment.without_delivery:
                self._wait_until_held(hold)
            if self._delivery is None:
                self._delivery = self._land()
            self._wait_until_held(hold)
            kill_text = self._kill(hold, proxy.url)
            if self.point.loses_request:
                hold.drop()  # closes the connection and forwards nothing
            return kill_text
        finally:
            if hold is not None:
                proxy.forget(hold)
            if moment.queued_step:
                self.stack.clear_faults()

    def _wait_until_held(self, hold: Hold) -> None:
        """Raises MomentMissed if the publish ends, or MOMENT_TIMEOUT_S pass, before the proxy holds a request."""
        deadline = time.monotonic() + MOMENT_TIMEOUT_S
        while not hold.wait(POLL_INTERVAL_S):
            has_ended = self._delivery is not None and self._run_state() in FINAL_RUN_STATES
            if has_ended and not hold.has_request():
                raise MomentMissed(
                    f"the publish ended ({self._run_state()}) without the moment [{self.point.moment.name}]"
                )
            if time.monotonic() > deadline:
                raise MomentMissed(
                    f"the moment [{self.point.moment.name}] did not come within {MOMENT_TIMEOUT_S:.0f} s"
                )

    def _run_state(self) -> str | None:
        return self.stack.run_state(self.point.feed, publish_run_id(self.delivery))

    def _wait_until_deferred(self, task_id: str) -> None:
        def deferred() -> bool:
            tasks = self.stack.tasks(self.point.feed, publish_run_id(self.delivery))
            return any(task.task_id == task_id and task.state == "deferred" for task in tasks)

        wait_for(deferred, f"task [{task_id}] is deferred", MOMENT_TIMEOUT_S)

    def _kill(self, hold: Hold, proxy_url: str) -> str:
        """Kill the point's process while `hold` holds a request. Returns the text for the report."""
        request = hold.request
        if request is None:
            raise MomentMissed("no request is held")
        sender = victim_processes.find_sender(self.stack, hold.client_port, int(proxy_url.rsplit(":", 1)[1]))
        if self.point.moment.after_job_end:
            job_id = find_job_id(request.text)
            wait_for(lambda: _is_done(self.stack.job(job_id)), f"job [{job_id}] is done", MOMENT_TIMEOUT_S)
        victim = self._find_victim(sender)
        kill_text = (
            f"held {request} of process {victim_processes.describe(sender)}; killed {victim_processes.describe(victim)}"
        )
        self.killed_at = time.monotonic()
        victim_processes.kill(victim)
        return kill_text

    def _find_victim(self, sender: psutil.Process) -> psutil.Process:
        """The process to kill. `sender`: the process that has sent the held request."""
        finders: dict[Victim, Callable[[], psutil.Process]] = {
            Victim.TASK: lambda: victim_processes.find_task_process(self.stack, sender),
            Victim.EXECUTOR_WORKER: lambda: victim_processes.find_executor_worker(self.stack, sender),
            Victim.SPARK_JVM: lambda: victim_processes.find_jvm(sender),
            Victim.SPARK_DAEMON: sender.parent,
        }
        if self.point.victim in finders:
            return finders[self.point.victim]()
        if self.point.victim in (Victim.SPARK_DRIVER, Victim.SPARK_WORKER, Victim.TRIGGER_RUNNER):
            return sender
        return victim_processes.find_main_process(self.stack, str(self.point.victim))

    def describe_recovery(self) -> str:
        """A text for the report: restarted parts, tasks that were tried again, and the number of discarded attempts."""
        parts = self.stack.part_states()
        tasks = self.stack.tasks(self.point.feed, publish_run_id(self.delivery))
        records = self.stack.ledger(self.point.feed)[self._records_before :]
        discarded = sum(record.outcome is not Outcome.PUBLISHED for record in records)
        steps = [f"supervisord restarted {name}" for name, pid in self._pids_before.items() if parts[name].pid != pid]
        steps += [f"Airflow tried {t.task_id} again (try {t.try_number})" for t in tasks if t.try_number > 1]
        if discarded:
            steps.append(f"{discarded} attempt(s) discarded")
        return "; ".join(steps) or "nothing had to be repeated"


def find_job_id(text: str) -> str:
    """The id of the BigQuery job that a request inserts. `text`: the body of the request."""
    start = text.index('"dedup_clone-') + 1
    return text[start : text.index('"', start)]


def _is_done(job: Any) -> bool:
    return bool(job and job["status"]["state"] == "DONE")
