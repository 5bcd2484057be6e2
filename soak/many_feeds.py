"""Measures one Airflow environment with hundreds of feeds: DAG parsing, triggerer, watchdog, page, and publishes.

All feeds are copies of the worked example. To save time, the first generation of each, with a few rows, is published
without Airflow. The local stack does everything else.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from dedup_clone.settings.deployment import PROFILE_VARIABLE, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from devstack.demo.delivery_progress import publish_dag_id, publish_run_id, watch_dag_id
from devstack.http_calls import call
from soak.delivery_producer import DeliveryProducer
from soak.report import Section
from soak.victim_processes import find_main_process
from testkit.browser import CHROMIUM, open_browser
from testkit.feed_on_stand_in import FeedOnStandIn, row
from testkit.proxied_stack import EXAMPLE, ProxiedStack, log, running_stack
from testkit.waiting import wait_for

PARTS_STARTED_LATER = ("scheduler", "triggerer")  # stopped until each feed has its first generation
TIMEOUT_S = 3600.0
CPU_WINDOW_S = 120.0  # over which the triggerer's CPU time is measured
PAGE_REQUESTS = 10
PAGE_LOADS = 5  # in a browser
# JavaScript: the milliseconds since the navigation, once the page shows a feed's headline.
FEED_SHOWN_AT = "document.querySelector('#hero .headline')?.innerText && performance.now()"
PAGE_PAUSE_S = 3.2  # between requests; longer than the page caches its list, so that each request reads the bucket
MAX_PAGE_S = 1.0
MAX_PARSE_S = 120.0  # Airflow's timeout for the import of a DAG file, as Terraform sets it
MAX_WATCHDOG_S = 300.0  # the interval of its runs
MAX_TRIGGERER_CPU = 0.8  # of one core
MAX_LAG_S = 600.0  # with it six publishes, one after the other, fit into an hour


def write_feeds(dags: Path, names: list[str]) -> None:
    """Write a copy of the worked example's feed file for each name."""
    example = (dags / "feeds" / f"{EXAMPLE}.yaml").read_text()
    for name in names:
        (dags / "feeds" / f"{name}.yaml").write_text(example.replace(EXAMPLE, name))


def _prepare_dags(dags: Path, names: list[str]) -> None:
    """Write the feed files, and let triggers list landing as often as the profile `gcp` of dags/profiles/ says."""
    write_feeds(dags, names)
    profiles = dags / "profiles"
    interval_s = read_deployment(profiles, {PROFILE_VARIABLE: "gcp"}).notice_interval_s
    local = (profiles / "local.yaml").read_text()
    changed = re.sub(r"^notice_interval_s: .*$", f"notice_interval_s: {interval_s}", local, flags=re.MULTILINE)
    (profiles / "local.yaml").write_text(changed)


def run(folder: Path, *, feeds: int, publishes: int) -> Section:
    """Start a stack below `folder` with `feeds` feeds, and measure it. `publishes`: how many are measured."""
    names = [f"crowd_{number:03}" for number in range(feeds)]
    with running_stack(folder, prepare_dags=partial(_prepare_dags, names=names)) as stack:
        return ManyFeeds(stack, names).measure(publishes)


class ManyFeeds:
    """The measurements. `facts`, `problems`: sentences for the report."""

    def __init__(self, stack: ProxiedStack, names: list[str]) -> None:
        self.facts: list[str] = []
        self.problems: list[str] = []
        self._stack = stack
        self._names = names

    def measure(self, publishes: int) -> Section:
        """Measure everything, with this number of publishes. Returns the report's section."""
        for part in PARTS_STARTED_LATER:
            self._stack.stop_part(part)
        self._measure_parsing()
        self._publish_first_generations()
        self._start_watching()
        self._measure_processes()
        self._measure_watchdog()
        self._measure_page()
        self._publish(publishes)
        return Section(f"{len(self._names)} feeds in one environment", tuple(self.facts), tuple(self.problems))

    def _add_fact(self, fact: str) -> None:
        log(f"  {fact}")
        self.facts.append(fact)

    def _check_limit(self, name: str, found: float, limit: float, unit: str = "s") -> None:
        if found > limit:
            self.problems.append(f"{name}: {found:.2f} {unit}, expected at most {limit:g} {unit}")

    def _get_from_airflow(self, path: str) -> Any:
        return wait_for(lambda: self._stack.ask_airflow(lambda api: api.get(path)), f"[{path}] answers", TIMEOUT_S)

    def _measure_parsing(self) -> None:
        """Wait until Airflow knows all DAGs, and report the duration of the last parse of each DAG file."""
        began = time.monotonic()
        # Each DAG file makes the DAGs of all feeds in one parse, so the first and the last feed stand for all.
        outermost = (self._names[0], self._names[-1])
        dag_ids = [dag_id(name) for name in outermost for dag_id in (watch_dag_id, publish_dag_id)]
        wait_for(
            lambda: self._stack.ask_airflow(lambda api: [api.is_paused(dag) for dag in dag_ids]) == [False] * 4,
            "Airflow knows the DAGs of all feeds",
            TIMEOUT_S,
        )
        self._add_fact(f"Airflow knew all DAGs {time.monotonic() - began:.0f} s after those of the worked example")
        dags = self._get_from_airflow(f"dags?limit=100&dag_id_pattern={self._names[0]}_")["dags"]
        seconds = {dag["dag_id"].removeprefix(f"{self._names[0]}_"): dag["last_parse_duration"] for dag in dags}
        self._add_fact(
            "parse, seconds of each DAG file: " + ", ".join(f"{n} {s:.1f}" for n, s in sorted(seconds.items()))
        )
        self._check_limit("slowest DAG file", max(seconds.values()), MAX_PARSE_S)

    def _publish_first_generations(self) -> None:
        """Publish the first generation of each feed without Airflow."""
        example = read_feed(self._stack.layout.dags_folder / "feeds" / f"{EXAMPLE}.yaml").model_dump_json()

        def publish(name: str) -> None:
            feed = Feed.model_validate_json(example.replace(EXAMPLE, name))
            publisher = FeedOnStandIn(feed, self._stack.landing.client, self._stack.bigquery)
            publisher.environment = "local"  # the stack's own name, so that its Airflow may publish the feed afterwards
            publisher.publish(publisher.land(1, [row(1, product) for product in range(3)]))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(publish, self._names))

    def _start_watching(self) -> None:
        """Start scheduler and triggerer, and wait until each feed has a deferred task that watches landing."""
        began = time.monotonic()
        for part in PARTS_STARTED_LATER:
            self._stack.supervisor.start(part)
        path = "dags/~/dagRuns/~/taskInstances?task_id=notice_delivery&state=deferred&limit=1"
        wait_for(
            lambda: self._get_from_airflow(path)["total_entries"] >= len(self._names),
            "every feed's landing is watched",
            TIMEOUT_S,
        )
        self._add_fact(
            f"all feeds are watched {time.monotonic() - began:.0f} s after a start of scheduler and triggerer"
        )

    def _measure_processes(self) -> None:
        """Report the triggerer's CPU time and the memory of Airflow's components while no delivery arrives."""
        before, began = self._cpu_s("triggerer"), time.monotonic()
        time.sleep(CPU_WINDOW_S)
        cores = (self._cpu_s("triggerer") - before) / (time.monotonic() - began)
        self._add_fact(f"triggerer: {100 * cores:.0f} % of a core while no delivery arrives")
        self._check_limit("triggerer's CPU", cores, MAX_TRIGGERER_CPU, "cores")
        for part in ("triggerer", "scheduler", "dag_processor", "api_server"):
            mib = sum(process.memory_full_info().pss for process in self._process_tree(part)) / 2**20
            self._add_fact(f"memory of the {part}: {mib:.0f} MiB (shared pages divided among the processes)")

    def _process_tree(self, part: str) -> list[psutil.Process]:
        process = find_main_process(self._stack, part)
        return [process, *process.children(recursive=True)]

    def _cpu_s(self, part: str) -> float:
        """The CPU seconds that a part of the stack has used, with its child processes, also ended ones."""
        times = [process.cpu_times() for process in self._process_tree(part)]
        return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))

    def _measure_watchdog(self) -> None:
        """Wait for the watchdog's next run to end, and report the duration of its task check_feeds."""
        runs = "dags/freshness_watchdog/dagRuns?order_by=-run_after&limit=1"
        last = self._get_from_airflow(runs)["dag_runs"]
        last_run_id = last[0]["dag_run_id"] if last else ""

        def next_run() -> Any:
            (run,) = self._get_from_airflow(runs)["dag_runs"] or [None]
            return run if run and run["dag_run_id"] != last_run_id and run["state"] in ("success", "failed") else None

        run = wait_for(next_run, "the watchdog has checked all feeds", TIMEOUT_S)
        path = f"dags/freshness_watchdog/dagRuns/{run['dag_run_id']}/taskInstances/check_feeds"
        seconds = float(self._get_from_airflow(path)["duration"])
        self._add_fact(f"one check of all feeds by the watchdog: {seconds:.1f} s")
        self._check_limit("the watchdog's check", seconds, MAX_WATCHDOG_S)
        if run["state"] != "success":
            self.problems.append(f"run [{run['dag_run_id']}] of the watchdog ended as [{run['state']}]")

    def _measure_page(self) -> None:
        """Report how long the server takes to answer the page's list of feeds, and, with Chromium, to show the page."""
        connection = self._stack.connection
        url = connection.airflow_url
        user = {"username": connection.airflow_user, "password": connection.airflow_password}
        login = call("POST", f"{url}/auth/token", body=user).json()
        seconds, listed = [], 0
        for _ in range(PAGE_REQUESTS):
            time.sleep(PAGE_PAUSE_S)
            began = time.monotonic()
            answer = call("GET", f"{url}/dedup-clone/api/feeds", token=login["access_token"], timeout_s=60.0)
            seconds.append(time.monotonic() - began)
            listed = len(answer.json()["feeds"])
        self._add_fact(
            f"the page's list of {listed} feeds: {1000 * median(seconds):.0f} ms (median of {PAGE_REQUESTS}, each "
            f"reading the state bucket), {1000 * max(seconds):.0f} ms at most"
        )
        self._check_limit("the page's list of feeds", median(seconds), MAX_PAGE_S)
        if listed < len(self._names):
            self.problems.append(f"the page lists {listed} feeds, expected {len(self._names)}")
        if CHROMIUM is not None:
            self._measure_page_in_browser(url, login["access_token"])

    def _measure_page_in_browser(self, url: str, token: str) -> None:
        """Report the seconds from the navigation to the page until a feed is drawn: a first visit, and a later one."""
        visits: dict[str, list[float]] = {"without a cache": [], "that knows the page": []}
        with TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
            for _ in range(PAGE_LOADS):
                page = browser.new_page()
                page.send("Network.setCookie", name="_token", value=token, url=url)
                for seconds in visits.values():
                    page.go("about:blank")
                    time.sleep(PAGE_PAUSE_S)
                    page.go(f"{url}/dedup-clone/")
                    seconds.append(page.wait_until(FEED_SHOWN_AT) / 1000)
        for state, seconds in visits.items():
            self._add_fact(
                f"the page in a browser {state}: {1000 * median(seconds):.0f} ms until a feed is shown "
                f"(median of {PAGE_LOADS}), {1000 * max(seconds):.0f} ms at most"
            )
            self._check_limit(f"the page in a browser {state}", median(seconds), MAX_PAGE_S)

    def _publish(self, publishes: int) -> None:
        """Publish one delivery after the other, each in another feed, while all feeds are watched."""
        deliveries = DeliveryProducer(self._stack.landing, next_id=2)
        lags = []
        for number in range(publishes):
            feed = self._names[number * len(self._names) // publishes]
            run_id = publish_run_id(deliveries.land(feed))
            wait_for(partial(self._has_ended, feed, run_id), f"run [{run_id}] of [{feed}] has ended", TIMEOUT_S)
            lag_s = self._stack.ledger(feed)[-1].lag_s
            if self._stack.run_state(feed, run_id) != "success" or lag_s is None:
                self.problems.append(f"run [{run_id}] of [{feed}] failed")
            else:
                lags.append(lag_s)
        if lags:
            self._add_fact(f"{len(lags)} publishes: lag {median(lags):.0f} s, {max(lags):.0f} s at most")
            self._check_limit("the longest publish, for six an hour", max(lags), MAX_LAG_S)

    def _has_ended(self, feed: str, run_id: str) -> bool:
        return self._stack.run_state(feed, run_id) in ("success", "failed")
