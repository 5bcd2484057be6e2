"""Two Airflow environments on one feed: the stack's own, and a second one that publishes from this process.

The second one stays out while the first one publishes the feed. It takes the feed over in the middle of a publish, and
publishes; the first one stays out then, and takes the feed back by its form. Nothing may be published twice or be left
behind, and no run may be started for what the other environment has published.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from dedup_clone.contract.errors import FeedHeldElsewhere
from dedup_clone.publish.environments import take_over_feed
from dedup_clone.publish.resolve import resolve
from dedup_clone.settings.feed import read_feed
from devstack.demo.delivery_progress import publish_run_id
from devstack.producer.landing import Landed
from soak.consistency import find_record_problems
from soak.delivery_producer import DeliveryProducer
from soak.report import Section
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.proxied_stack import EXAMPLE, ProxiedStack
from testkit.stack_client import StackClient
from testkit.waiting import wait_for

SECOND = "second.example.org"
PUBLISHED_BY_SECOND = 4
# An environment looks every five minutes whether it may publish a feed again.
TIMEOUT_S = timedelta(minutes=15).total_seconds()
SLOW_LOAD = {"match": {"job_id": f"dedup_clone-{EXAMPLE}-.*-load-"}, "effect": "delay", "seconds": 20.0, "times": 1}


class TwoEnvironments:
    """What both environments do. `problems`: sentences for the report."""

    def __init__(self, stack: ProxiedStack, deliveries: DeliveryProducer) -> None:
        self.problems: list[str] = []
        self._stack = stack
        self._client = StackClient(stack.layout.local)
        self._deliveries = deliveries
        self._known_runs = stack.run_ids(EXAMPLE)
        feed = read_feed(stack.layout.dags_folder / "feeds" / f"{EXAMPLE}.yaml")
        self._second = FeedOnStandIn(feed, stack.landing.client, stack.bigquery)
        self._second.environment = SECOND

    def run(self) -> None:
        runs = [self._publish_in_airflow()]
        self._second_is_refused()
        runs.append(self._second_takes_over())
        self._second_publishes(PUBLISHED_BY_SECOND)
        self._expect_runs(runs)
        newest = str(self._deliveries.landed[EXAMPLE][-1].snapshot_id)
        runs.append(self._by_hand("is published by Airflow environment", snapshot_id=newest, reason="who holds it?"))
        runs.append(self._by_hand("took the feed over from", take_over=True, reason="back again"))
        runs.append(self._publish_in_airflow())
        self._expect_runs(runs)
        self.problems += find_record_problems(self._stack, EXAMPLE, self._deliveries.landed[EXAMPLE])

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    def _expect_runs(self, expected: list[str]) -> None:
        found = self._stack.run_ids(EXAMPLE)
        wanted = sorted([*self._known_runs, *expected])
        self._expect(found == wanted, f"Airflow has the runs {found}, expected {wanted}")

    def _wait(self, run_id: str, expected: str) -> None:
        ended = partial(self._client.final_state, f"{EXAMPLE}_publish", run_id)
        state = wait_for(ended, f"run [{run_id}] has ended", TIMEOUT_S)
        self._expect(state == expected, f"run [{run_id}] ended as [{state}], expected [{expected}]")

    def _publish_in_airflow(self) -> str:
        run_id = publish_run_id(self._deliveries.land(EXAMPLE))
        self._wait(run_id, "success")
        return run_id

    def _second_is_refused(self) -> None:
        name = self._stack.arrivals(EXAMPLE).deliveries()[-1].name
        try:
            resolve(self._second.services, self._second.publish_request(name))
            self.problems.append("the second environment acquired the lease of the first one's feed")
        except FeedHeldElsewhere as error:
            self._expect("take_over" in str(error) and SECOND in str(error), f"the refusal says [{error}]")
        self._expect(self._stack.current(EXAMPLE).intent is None, "the refused environment left a lease")

    def _second_takes_over(self) -> str:
        """Take the feed over while the first environment loads staging; returns the run that lost its lease."""
        self._stack.add_fault(SLOW_LOAD)
        landed = self._deliveries.land(EXAMPLE)
        run_id = publish_run_id(landed)
        loads = partial(self._job_is_recorded, "-load-")
        wait_for(loads, "the first environment loads staging", TIMEOUT_S)
        take_over_feed(self._second.services, "the first one is gone")
        self._wait(run_id, "failed")
        self._second.publish(_name(landed))
        return run_id

    def _job_is_recorded(self, step: str) -> bool:
        return step in str(self._stack.current(EXAMPLE).intent)

    def _second_publishes(self, times: int) -> None:
        for _ in range(times):
            landed = self._deliveries.land(EXAMPLE)
            services = self._second.services
            for marker in services.arrivals.unregistered(services.landing.markers()):
                services.arrivals.register(services.landing, marker)
            self._second.publish(_name(landed))

    def _by_hand(self, says: str, **form: Any) -> str:
        """Trigger a publish in Airflow, which must say this and publish nothing."""
        generation = self._stack.current(EXAMPLE).generation
        run_id = self._client.replay(EXAMPLE, **form)
        self._wait(run_id, "success" if "take_over" in form else "failed")
        log = self._client.failure_log(EXAMPLE, run_id, "resolve_publish")
        self._expect(says in log and SECOND in log, f"run [{run_id}] did not say [{says} {SECOND}]")
        self._expect(self._stack.current(EXAMPLE).generation == generation, f"run [{run_id}] published")
        return run_id


def _name(landed: Landed) -> str:
    return f"{landed.snapshot_id}-{landed.marker_generation}"


def run(stack: ProxiedStack, deliveries: DeliveryProducer) -> list[Section]:
    """Let both environments publish the worked example, the stack's own at last."""
    environments = TwoEnvironments(stack, deliveries)
    environments.run()
    fact = (
        f"the second environment published {PUBLISHED_BY_SECOND + 1} deliveries, the first one those before and after"
    )
    return [Section("Two environments", (fact,), tuple(environments.problems))]
