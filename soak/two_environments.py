"""Publishes one feed from two environments: the stack's Airflow, and a second environment that this process stands for.

While the feed belongs to Airflow, the second environment must be refused. Then the second environment takes the feed
over in the middle of a publish, and publishes deliveries. Airflow must not publish until a run with the parameter
`take_over` takes the feed back. Each delivery must be published exactly once, and Airflow must start no run for what
the second environment published.
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

SECOND_ENVIRONMENT = "second.example.org"
SECOND_PUBLISHES = 4
# An environment checks every five minutes whether it may publish a feed again.
TIMEOUT_S = timedelta(minutes=15).total_seconds()
SLOW_LOAD = {"match": {"job_id": f"dedup_clone-{EXAMPLE}-.*-load-"}, "effect": "delay", "seconds": 20.0, "times": 1}


class TwoEnvironments:
    """The publishes and takeovers of both environments. `problems`: sentences for the report."""

    def __init__(self, stack: ProxiedStack, deliveries: DeliveryProducer) -> None:
        self.problems: list[str] = []
        self._stack = stack
        self._client = StackClient(stack.layout.local)
        self._deliveries = deliveries
        self._earlier_runs = stack.run_ids(EXAMPLE)
        feed = read_feed(stack.layout.dags_folder / "feeds" / f"{EXAMPLE}.yaml")
        self._second = FeedOnStandIn(feed, stack.landing.client, stack.bigquery)
        self._second.environment = SECOND_ENVIRONMENT

    def run(self) -> None:
        """Let the environments publish and take over as the module's docstring says, and check the feed."""
        runs = [self._publish_in_airflow()]
        self._check_second_is_refused()
        runs.append(self._take_over_by_second())
        self._publish_by_second(SECOND_PUBLISHES)
        self._expect_runs(runs)
        newest = str(self._deliveries.landed[EXAMPLE][-1].snapshot_id)
        runs.append(
            self._trigger_by_hand("is published by Airflow environment", snapshot_id=newest, reason="who holds it?")
        )
        runs.append(self._trigger_by_hand("took the feed over from", take_over=True, reason="back again"))
        runs.append(self._publish_in_airflow())
        self._expect_runs(runs)
        self.problems += find_record_problems(self._stack, EXAMPLE, self._deliveries.landed[EXAMPLE])

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    def _expect_runs(self, new_runs: list[str]) -> None:
        """Check that Airflow has no other publish runs of the feed than those before this test and `new_runs`."""
        found = self._stack.run_ids(EXAMPLE)
        expected = sorted([*self._earlier_runs, *new_runs])
        self._expect(found == expected, f"Airflow has the runs {found}, expected {expected}")

    def _wait_for_run(self, run_id: str, expected: str) -> None:
        final_state = partial(self._client.final_state, f"{EXAMPLE}_publish", run_id)
        state = wait_for(final_state, f"run [{run_id}] has ended", TIMEOUT_S)
        self._expect(state == expected, f"run [{run_id}] ended as [{state}], expected [{expected}]")

    def _publish_in_airflow(self) -> str:
        run_id = publish_run_id(self._deliveries.land(EXAMPLE))
        self._wait_for_run(run_id, "success")
        return run_id

    def _check_second_is_refused(self) -> None:
        name = self._stack.arrivals(EXAMPLE).deliveries()[-1].name
        try:
            resolve(self._second.services, self._second.publish_request(name))
            self.problems.append("the second environment acquired the lease of a feed that Airflow publishes")
        except FeedHeldElsewhere as error:
            self._expect("take_over" in str(error) and SECOND_ENVIRONMENT in str(error), f"the refusal says [{error}]")
        self._expect(self._stack.current(EXAMPLE).intent is None, "the refused environment left a lease")

    def _take_over_by_second(self) -> str:
        """Take the feed over while Airflow's publish loads staging. Returns the id of that run, which must fail."""
        self._stack.add_fault(SLOW_LOAD)
        landed = self._deliveries.land(EXAMPLE)
        run_id = publish_run_id(landed)
        is_loading = partial(self._is_job_recorded, "-load-")
        wait_for(is_loading, "Airflow's publish loads staging", TIMEOUT_S)
        take_over_feed(self._second.services, "Airflow is gone")
        self._wait_for_run(run_id, "failed")
        self._second.publish(_delivery_name(landed))
        return run_id

    def _is_job_recorded(self, step: str) -> bool:
        """Whether the lease names a BigQuery job of this step."""
        return step in str(self._stack.current(EXAMPLE).intent)

    def _publish_by_second(self, times: int) -> None:
        """Land deliveries, and register and publish each in the second environment, as its DAGs would."""
        for _ in range(times):
            landed = self._deliveries.land(EXAMPLE)
            services = self._second.services
            for marker in services.arrivals.unregistered(services.landing.markers()):
                services.arrivals.register(services.landing, marker)
            self._second.publish(_delivery_name(landed))

    def _trigger_by_hand(self, expected_text: str, **form: Any) -> str:
        """Trigger a publish in Airflow, which must log `expected_text` and publish nothing. Returns the run's id.

        `form`: the parameters of the run.
        """
        generation = self._stack.current(EXAMPLE).generation
        run_id = self._client.replay(EXAMPLE, **form)
        self._wait_for_run(run_id, "success" if "take_over" in form else "failed")
        log = self._client.task_log(EXAMPLE, run_id, "resolve_publish")
        self._expect(
            expected_text in log and SECOND_ENVIRONMENT in log,
            f"run [{run_id}] did not say [{expected_text} {SECOND_ENVIRONMENT}]",
        )
        self._expect(self._stack.current(EXAMPLE).generation == generation, f"run [{run_id}] published")
        return run_id


def _delivery_name(landed: Landed) -> str:
    return f"{landed.snapshot_id}-{landed.marker_generation}"


def run(stack: ProxiedStack, deliveries: DeliveryProducer) -> list[Section]:
    """Let both environments publish the worked example. In the end the stack's own Airflow holds it."""
    environments = TwoEnvironments(stack, deliveries)
    environments.run()
    fact = f"the second environment published {SECOND_PUBLISHES + 1} deliveries, Airflow those before and after"
    return [Section("Two environments", (fact,), tuple(environments.problems))]
