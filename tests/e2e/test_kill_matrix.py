"""One process is killed at one moment of a publish. The publish must succeed by itself, and the feed be consistent."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from testkit.holding_proxy import Hold
from testkit.running_stack import running_stack
from testkit.stack import Stack
from testkit.waiting import wait_for
from tests.e2e import victims
from tests.e2e.feeds import DISTURBED, keep_only, write_feed
from tests.e2e.kill_points import MOMENTS, POINTS, Moment
from tests.e2e.landed_deliveries import Deliveries

pytestmark = pytest.mark.timeout(3600)

BY_SPARK = "by_spark"  # its plan always starts Spark's Python workers, so that tests can kill them
# If one of these is killed, the held request is lost: the killed process has sent it, or the sender dies as well.
SENDERS = ("task", "spark_driver", "spark_jvm", "spark_worker", "spark_daemon", "trigger_runner")
MOMENT_TIMEOUT_S = 900.0
RECOVERY_TIMEOUT_S = 1200.0
PRUNED_FROM = 3  # the number of the first publish that has old files to delete
FINAL_TASK_STATES = ("success", "skipped", "failed", "upstream_failed", "removed")


class Kill:
    """Lands a delivery, and kills `victim` at a moment of its publish."""

    def __init__(self, stack: Stack, deliveries: Deliveries, feed: str, moment: Moment, victim: str) -> None:
        self.stack = stack
        self.feed = feed
        self.moment = moment
        self.victim = victim
        self.run_id = ""
        self._deliveries = deliveries

    def at_moment(self) -> bool:
        """Kill the process. Returns False if nothing was killed, because the publish ended without the moment."""
        moment, proxy = self.moment, self.stack.proxies[self.moment.service]
        with ExitStack() as cleanup:
            if moment.queued_step:
                queued = f"dedup_clone-{self.feed}-.*-{moment.queued_step}-"
                cleanup.enter_context(self.stack.fault(queued, "queue"))
            if moment.deferred_task:
                self._land()
                wait_for(self._is_deferred, f"task [{moment.deferred_task}] is deferred", MOMENT_TIMEOUT_S)
            hold = proxy.hold(lambda request: moment.matches(self.feed, request), moment.when)
            cleanup.callback(proxy.forget, hold)
            if moment.without_delivery:
                assert hold.wait(MOMENT_TIMEOUT_S)
            if not self.run_id:
                self._land()
            if not self._is_held(hold):
                return False
            self._kill(hold)
            return True

    def _land(self) -> None:
        (self.run_id,) = self._deliveries.land(self.feed)

    def _is_deferred(self) -> bool:
        return self.stack.task_states(self.feed, self.run_id).get(self.moment.deferred_task) == "deferred"

    def _is_held(self, hold: Hold) -> bool:
        """Wait until the request is held. Returns False if the publish ends before."""
        deadline = time.monotonic() + MOMENT_TIMEOUT_S
        while not hold.wait(1.0):
            has_ended = self.stack.final_state(f"{self.feed}_publish", self.run_id)
            if has_ended or time.monotonic() > deadline:
                return False
        return True

    def _kill(self, hold: Hold) -> None:
        assert hold.request
        sender = victims.find_sender(self.stack, hold)
        if self.moment.after_job_end:
            job_id = re.findall(r'"(dedup_clone-[^"]+)"', hold.request.text)[0]
            job = self.stack.bigquery.get_job(job_id, location="US")
            wait_for(lambda: job.done(), f"job [{job_id}] is done", MOMENT_TIMEOUT_S)
        finders: dict[str, Callable[[], psutil.Process]] = {
            "task": lambda: victims.find_task(self.stack, sender),
            "executor_worker": lambda: victims.find_executor_worker(self.stack, sender),
            "spark_jvm": lambda: victims.find_jvm(sender),
            "spark_daemon": sender.parent,
            **dict.fromkeys(("spark_driver", "spark_worker", "trigger_runner"), lambda: sender),
        }
        victim = finders.get(self.victim, lambda: victims.find_part(self.stack, self.victim))()
        print(f"held {hold.request} of {sender}; kills {victim}")
        victims.kill(victim)
        server = {"storage": "fake_gcs", "bigquery": "bigquery"}[self.moment.service]
        if self.victim in (*SENDERS, server):
            hold.drop()  # closes the connection and forwards nothing

    def wait_for_recovery(self) -> None:
        """Wait until the publish has succeeded with all its tasks, and every part of the stack is healthy."""
        assert self.stack.wait_for_run(self.feed, self.run_id, timeout_s=RECOVERY_TIMEOUT_S) == "success"
        wait_for(self._have_tasks_ended, f"all tasks of run [{self.run_id}] have ended")
        self.stack.wait_until_healthy()
        victims.kill_orphaned_workers(self.stack)

    def _have_tasks_ended(self) -> bool:
        """Not while Airflow lists no task of the run, as while its API server starts again."""
        states = self.stack.task_states(self.feed, self.run_id).values()
        return bool(states) and set(states) <= set(FINAL_TASK_STATES)


def points(*selected: tuple[str, str]) -> pytest.MarkDecorator:
    ids = [":".join(point) for point in selected]
    return pytest.mark.parametrize(("name", "victim"), selected, ids=ids)


@points(("swap.committed", "task"), ("commit.ledger", "fake_gcs"))
def test_a_publish_ends_well_though_a_process_is_killed(
    stack: Stack, deliveries: Deliveries, name: str, victim: str
) -> None:
    kill_and_recover(stack, deliveries, name, victim)


def keep_two_feeds(dags: Path) -> None:
    """Other feeds occupy half a core although nothing arrives. The SLA makes Airflow retry within seconds."""
    write_feed(dags, DISTURBED, freshness={"sla_minutes": 10})
    write_feed(dags, BY_SPARK, freshness={"sla_minutes": 10}, dedup={"plan": "window"})
    keep_only(dags, DISTURBED, BY_SPARK)


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack") / "local", keep_two_feeds) as stack:
        yield stack


@pytest.fixture(scope="module")
def own_deliveries(own_stack: Stack) -> Deliveries:
    return Deliveries(own_stack)


@pytest.mark.soak
@points(*POINTS)
def test_no_killed_process_stops_a_publish(own_deliveries: Deliveries, name: str, victim: str) -> None:
    kill_and_recover(own_deliveries.stack, own_deliveries, name, victim)


def kill_and_recover(stack: Stack, deliveries: Deliveries, name: str, victim: str) -> None:
    feed = BY_SPARK if victim in ("spark_jvm", "spark_worker", "spark_daemon") else DISTURBED
    for run_id in deliveries.landed[feed]:  # of an earlier test, which may have failed
        stack.wait_for_run(feed, run_id)
    while name.startswith("prune") and len(deliveries.landed[feed]) < PRUNED_FROM - 1:
        deliveries.publish(feed)
    for _ in range(2):  # a second time if the moment did not come
        kill = Kill(stack, deliveries, feed, MOMENTS[name], victim)
        if kill.at_moment():
            kill.wait_for_recovery()
            deliveries.assert_consistent(feed)
            return
    pytest.fail(f"the moment [{name}] did not come")
