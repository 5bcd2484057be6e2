"""One point of the kill matrix: a delivery lands, its publish is held, a process dies, and all must end well."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
from google.api_core.exceptions import GoogleAPIError

from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.state.ledger import Outcome
from devstack.demo.airflow_api import Task
from devstack.demo.errors import DemoFailed
from devstack.demo.follow import publish_run
from devstack.producer.landing import Landed
from soak import judge, processes
from soak.deliveries import Deliveries
from soak.errors import Missed, SoakError
from soak.gate import Hold
from soak.points import Point, Victim
from soak.stack import LOOK_EVERY_S, Say, SoakStack, wait_for

HIT_PATIENCE_S = 900.0
RECOVERY_PATIENCE_S = 1200.0
WARM_UP_PUBLISHES = 2
# Whatever makes a point fail without making the next one pointless.
FAILURES = (SoakError, DemoFailed, DedupCloneError, GoogleAPIError, psutil.Error, OSError, LookupError)
ENDED = ("success", "failed")
ENDED_TASKS = ("success", "skipped", "failed", "upstream_failed", "removed")


@dataclass(frozen=True)
class PointResult:
    """`recovered_s`: from the kill until the delivery was live, committed and pruned, and every part healthy."""

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
        """Nothing was killed: the moment did not come."""
        return any(problem.startswith(Missed.__name__) for problem in self.problems)


@dataclass
class KillMatrix:
    """The points follow each other on one stack, each with a new delivery."""

    stack: SoakStack
    say: Say
    deliveries: Deliveries

    def publish_plainly(self, feeds: list[str], when: str) -> None:
        """One publish more that nobody disturbs, in each feed; on a new stack so many that there is one to prune.

        Raises SoakError when one goes wrong: nothing that follows would prove anything.
        """
        for _ in range(1 if self.deliveries.of else WARM_UP_PUBLISHES):
            landed = {feed: self.deliveries.land(feed) for feed in feeds}
            for feed, delivery in landed.items():
                if found := self._end_well(feed, delivery, time.monotonic())[1]:
                    raise SoakError(f"The publish {when} went wrong for [{feed}]: {'; '.join(found)}")

    def run(self, point: Point) -> PointResult:
        """Raises SoakError only when the run as a whole cannot go on."""
        began = time.monotonic()
        hit, recovered_by, recovered_s = "", "", None
        try:
            strike = Strike(self.stack, point, lambda: self.deliveries.land(point.feed))
            hit = strike.carry_out()
            recovered_s, found = self._end_well(point.feed, strike.delivery, strike.killed_at)
            recovered_by = strike.recovery()
        except FAILURES as error:
            found = [f"{type(error).__name__}: {error}", *self._settle(point.feed)]
        self._clean_up()
        seconds = time.monotonic() - began
        return PointResult(
            point=point.name,
            step=point.moment.step,
            victim=str(point.victim),
            how=point.moment.how,
            hit=hit,
            recovered_by=recovered_by,
            recovered_s=recovered_s,
            seconds=seconds,
            problems=tuple(found),
        )

    def _end_well(self, feed: str, delivery: Landed, since: float) -> tuple[float | None, list[str]]:
        """Seconds until everything was well, and the problems when it never was."""
        run_id = publish_run(delivery)
        wait_for(lambda: self._has_ended(feed, run_id), RECOVERY_PATIENCE_S, f"run [{run_id}] has ended")
        state = self.stack.run_state(feed, run_id)
        if state != "success":
            tasks = ", ".join(f"{t.task_id} {t.state} (try {t.try_number})" for t in self.stack.tasks(feed, run_id))
            return None, [f"run [{run_id}] ended as [{state}]: {tasks}", *self._judge(feed)]
        wait_for(self.stack.are_healthy, RECOVERY_PATIENCE_S, "every part of the stack is healthy")
        return time.monotonic() - since, self._judge(feed)

    def _settle(self, feed: str) -> list[str]:
        """After a point that failed: what is under way ends first, so that the next point starts from rest."""
        try:
            for delivery in self.deliveries.of.get(feed, []):
                run_id = publish_run(delivery)
                wait_for(partial(self._has_ended, feed, run_id), RECOVERY_PATIENCE_S, f"run [{run_id}] has ended")
        except FAILURES as error:
            return [f"and did not come to rest: {type(error).__name__}: {error}"]
        return []

    def _judge(self, feed: str) -> list[str]:
        return judge.problems(self.stack, feed, self.deliveries.of[feed])

    def _has_ended(self, feed: str, run_id: str) -> bool:
        if self.stack.run_state(feed, run_id) not in ENDED:
            return False
        return all(task.state in ENDED_TASKS for task in self.stack.tasks(feed, run_id))

    def _clean_up(self) -> None:
        """Executor workers of a scheduler that was killed wait for ever for a task: they only take memory."""
        scheduler = self.stack.parts()["scheduler"].pid

        def is_left_over(process: psutil.Process) -> bool:
            with suppress(psutil.Error):
                title = " ".join(process.cmdline())
                return "LocalExecutor" in title and process.ppid() != scheduler
            return False

        processes.end_orphans(self.stack, is_left_over)


class Strike:
    """Brings one publish to the moment, and kills."""

    def __init__(self, stack: SoakStack, point: Point, land: Callable[[], Landed]) -> None:
        self.stack = stack
        self.point = point
        self.killed_at = 0.0
        self._land = land
        self._delivery: Landed | None = None
        self._pids = {name: part.pid for name, part in stack.parts().items()}
        self._attempts = len(stack.ledger(point.feed))

    @property
    def delivery(self) -> Landed:
        if self._delivery is None:
            raise SoakError(f"Point [{self.point.name}] has not landed its delivery.")
        return self._delivery

    def carry_out(self) -> str:
        """What was held and who was killed. Raises Missed when the moment did not come."""
        moment, feed = self.point.moment, self.point.feed
        gate = self.stack.gates[moment.service]
        if moment.queued:
            pattern = f"dedup_clone-{feed}-.*-{moment.queued}-"
            self.stack.add_fault({"match": {"job_id": pattern}, "effect": "queue", "times": 100})
        hold: Hold | None = None
        try:
            if moment.deferred:
                self._delivery = self._land()
                self._wait_until_deferred(moment.deferred)
            hold = gate.hold(lambda request: moment.matches(feed, request), moment.when)
            if moment.idle:
                self._wait_for(hold)
            if self._delivery is None:
                self._delivery = self._land()
            self._wait_for(hold)
            hit = self._kill(hold, gate.url)
            if self.point.loses_request:
                hold.drop()
            return hit
        finally:
            if hold is not None:
                gate.forget(hold)
            if moment.queued:
                self.stack.clear_faults()

    def _wait_for(self, hold: Hold) -> None:
        give_up = time.monotonic() + HIT_PATIENCE_S
        while not hold.wait(LOOK_EVERY_S):
            over = self._delivery is not None and self._run_state() in ENDED
            if over and not hold.is_hit():
                raise Missed(f"the publish ended ({self._run_state()}) without the moment [{self.point.moment.name}]")
            if time.monotonic() > give_up:
                raise Missed(f"the moment [{self.point.moment.name}] did not come within {HIT_PATIENCE_S:.0f} s")

    def _run_state(self) -> str | None:
        return self.stack.run_state(self.point.feed, publish_run(self.delivery))

    def _wait_until_deferred(self, task_id: str) -> None:
        def deferred() -> bool:
            tasks = self.stack.tasks(self.point.feed, publish_run(self.delivery))
            return any(task.task_id == task_id and task.state == "deferred" for task in tasks)

        wait_for(deferred, HIT_PATIENCE_S, f"task [{task_id}] is deferred")

    def _kill(self, hold: Hold, gate_url: str) -> str:
        request = hold.request
        if request is None:
            raise Missed("no request is held")
        client = processes.client_of(self.stack, hold.client_port, int(gate_url.rsplit(":", 1)[1]))
        if self.point.moment.done:
            job_id = job_named(request.text)
            wait_for(lambda: _is_done(self.stack.job(job_id)), HIT_PATIENCE_S, f"job [{job_id}] is done")
        victim = self._victim(client)
        hit = f"held {request} of process {processes.describe(client)}; killed {processes.describe(victim)}"
        self.killed_at = time.monotonic()
        processes.kill(victim)
        return hit

    def _victim(self, client: psutil.Process) -> psutil.Process:
        find: dict[Victim, Callable[[], psutil.Process]] = {
            Victim.TASK: lambda: processes.task_process(self.stack, client),
            Victim.EXECUTOR_WORKER: lambda: processes.executor_worker(self.stack, client),
            Victim.SPARK_JVM: lambda: processes.java_above(client),
            Victim.SPARK_DAEMON: client.parent,
        }
        if self.point.victim in find:
            return find[self.point.victim]()
        if self.point.victim in (Victim.SPARK_DRIVER, Victim.SPARK_WORKER, Victim.TRIGGER_RUNNER):
            return client
        return processes.main_process(self.stack, str(self.point.victim))

    def recovery(self) -> str:
        """What brought it back: restarts by supervisord, tries by Airflow, attempts that the next one discarded."""
        now = self.stack.parts()
        tasks = self.stack.tasks(self.point.feed, publish_run(self.delivery))
        records = self.stack.ledger(self.point.feed)[self._attempts :]
        discarded = sum(record.outcome is not Outcome.PUBLISHED for record in records)
        told = [f"supervisord restarted {name}" for name, pid in self._pids.items() if now[name].pid != pid]
        told += [f"Airflow tried {name} again (try {count})" for name, count in _tries(tasks).items()]
        if discarded:
            told.append(f"{discarded} attempt(s) discarded")
        return "; ".join(told) or "nothing had to be repeated"


def job_named(text: str) -> str:
    """The id in the body of a job's insertion."""
    start = text.index('"dedup_clone-') + 1
    return text[start : text.index('"', start)]


def _is_done(job: Any) -> bool:
    return bool(job and job["status"]["state"] == "DONE")


def _tries(tasks: list[Task]) -> dict[str, int]:
    return {task.task_id: task.try_number for task in tasks if task.try_number > 1}
