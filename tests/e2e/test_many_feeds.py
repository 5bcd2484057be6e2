"""One environment with many feeds (FEEDS=200): some of them publish at once, and all are watched, checked and shown.

All feeds are copies of the worked example. Triggers list landing as often as in the profile `gcp`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

from dedup_clone.settings.feed import read_feed
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.running_stack import running_stack
from testkit.stack import Stack
from testkit.waiting import wait_for
from tests.e2e.feeds import keep_only, write_feed
from tests.e2e.landed_deliveries import Deliveries, small_snapshot
from tests.e2e.victims import find_part

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]

FEEDS = [f"crowd_{number:03}" for number in range(int(os.environ.get("FEEDS", "24")))]
AT_ONCE, OTHERS = FEEDS[:24], FEEDS[24:]  # the others are published without Airflow, to save time
TIMEOUT_S = 3600.0


def add_feeds(dags: Path) -> None:
    for feed in FEEDS:
        write_feed(dags, feed)
    keep_only(dags, *FEEDS)
    profiles = [dags / "profiles" / f"{name}.yaml" for name in ("local", "gcp")]
    local, gcp = (yaml.safe_load(profile.read_text()) for profile in profiles)
    profiles[0].write_text(yaml.safe_dump({**local, "notice_interval_s": gcp["notice_interval_s"]}))


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All feeds have a generation, those in AT_ONCE from deliveries that have landed at once."""
    with running_stack(tmp_path_factory.mktemp("stack") / "local", add_feeds) as stack:
        with stack.stopped("triggerer"), ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda feed: publish_without_airflow(stack, feed), OTHERS))
        deliveries = Deliveries(stack)
        runs = {feed: deliveries.land(feed) for feed in AT_ONCE}
        for feed, run_ids in runs.items():
            assert stack.wait_for_run(feed, *run_ids, timeout_s=TIMEOUT_S) == "success"
        for feed in AT_ONCE:
            deliveries.assert_consistent(feed)
        yield stack


def publish_without_airflow(stack: Stack, feed: str) -> None:
    settings = read_feed(stack.layout.dags_folder / "feeds" / f"{feed}.yaml")
    publisher = FeedOnStandIn(settings, stack.storage, stack.bigquery)
    publisher.environment = "local"  # the stack's own name, so that its Airflow may publish the feed afterwards
    publisher.publish(publisher.land(1, small_snapshot(1)))


def test_each_dag_file_is_parsed_in_time(own_stack: Stack) -> None:
    """Each makes the DAGs of all feeds in one parse. Terraform allows two minutes."""
    dags = own_stack.airflow.get(f"dags?limit=100&dag_id_pattern={FEEDS[-1]}_")["dags"]
    seconds = {dag["dag_id"]: dag["last_parse_duration"] for dag in dags}
    print(seconds)
    assert len(seconds) == 3
    assert max(seconds.values()) < 120


def test_the_triggerer_needs_less_than_a_core_while_no_delivery_arrives(own_stack: Stack) -> None:
    path = "dags/~/dagRuns/~/taskInstances?task_id=notice_delivery&state=deferred&limit=1"
    wait_for(lambda: own_stack.airflow.get(path)["total_entries"] >= len(FEEDS), "all feeds are watched", TIMEOUT_S)
    before, began = cpu_s(own_stack), time.monotonic()
    time.sleep(60)
    cores = (cpu_s(own_stack) - before) / (time.monotonic() - began)
    print(f"{cores:.2f} cores")
    assert cores < 0.8


def cpu_s(stack: Stack) -> float:
    """The CPU seconds that the triggerer has used, with its child processes, also ended ones."""
    triggerer = find_part(stack, "triggerer")
    times = [process.cpu_times() for process in [triggerer, *triggerer.children(recursive=True)]]
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def test_the_watchdog_checks_all_feeds_between_two_of_its_runs(own_stack: Stack) -> None:
    run_id = own_stack.run("freshness_watchdog")
    task: Any = own_stack.airflow.get(f"dags/freshness_watchdog/dagRuns/{run_id}/taskInstances/check_feeds")
    print(task["duration"])
    assert task["state"] == "success"
    assert task["duration"] < 300


def test_the_page_lists_all_feeds_within_a_second(own_stack: Stack) -> None:
    seconds = []
    for _ in range(10):
        time.sleep(3.2)  # longer than the page caches its list, so that each request reads the bucket
        began = time.monotonic()
        listed = own_stack.ask("GET", "dedup-clone/api/feeds").json()["feeds"]
        seconds.append(time.monotonic() - began)
        assert len(listed) == len(FEEDS)
    print(seconds)
    assert median(seconds) < 1


def test_publishes_are_quick_enough_for_six_an_hour(own_stack: Stack) -> None:
    runs = {feed: own_stack.land(feed, 1000, small_snapshot(1000)) for feed in FEEDS[:: len(FEEDS) // 6]}
    for feed, run_id in runs.items():
        own_stack.assert_published(feed, run_id)
        assert own_stack.ledger(feed)[-1]["lag_s"] < 600
