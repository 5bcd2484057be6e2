"""Runs the long test that the command names, and writes the report. Command `all` runs all of them but `many-feeds`.

Command `kill` runs the kill matrix: at each of its points one process is killed at one moment of a publish. Command
`many-feeds` measures an environment with many feeds. The exit status is 0 only if all tests that ran have passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from devstack.stack.layout import CHECKOUT
from devstack.stack.stack_errors import StackError
from soak import (
    feeds_at_once,
    kill_points,
    lifecycle,
    many_feeds,
    marker_burst,
    region_down,
    reporting_tables,
    two_environments,
)
from soak.delivery_producer import DeliveryProducer
from soak.kill_matrix import KillMatrix
from soak.kill_points import KillPoint
from soak.readers import replay_scenario, schema_scenario, swap_scenario
from soak.report import Report, Section, summary_line
from testkit.errors import HarnessError
from testkit.proxied_stack import EXAMPLE, ProxiedStack, log, running_stack

FOLDER_VARIABLE = "DEDUP_CLONE_SOAK_DIR"  # an environment variable: the folder for all files of the tests
INTERRUPTED = 130  # the exit status that shells use after Ctrl-C


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run_kill_matrix(stack: ProxiedStack, deliveries: DeliveryProducer, report: Report, points: list[KillPoint]) -> None:
    """Run these points of the kill matrix one after the other, and publish without a kill before and after them.

    A point whose moment did not come runs a second time.
    """
    matrix = KillMatrix(stack, deliveries)
    feeds = sorted({point.feed for point in points})
    matrix.publish_without_kill(feeds, "before the first point")
    log(f"Kill matrix: {len(points)} points")
    for point in points:
        result = matrix.run(point)
        if result.is_missed:
            log(summary_line(result))
            result = matrix.run(point)
        log(summary_line(result))
        report.add_point(result)
    matrix.publish_without_kill(feeds, "after the last point")


def run_marker_bursts(stack: ProxiedStack, deliveries: DeliveryProducer) -> list[Section]:
    """Land many markers at once, first while Airflow runs and then while it is stopped."""
    return [marker_burst.run(stack, deliveries, EXAMPLE, is_airflow_down=is_down) for is_down in (False, True)]


# The tests that can run one after the other on one stack, by command. The test two-environments is last, because it
# leaves deliveries without a run in Airflow, which the checks of later tests would report.
SHARED_STACK_TESTS = {
    "markers": run_marker_bursts,
    "region-down": region_down.run,
    "side-tables": reporting_tables.run,
    "two-environments": two_environments.run,
}


def add_section(report: Report, section: Section) -> None:
    """Add the result of a test to the report, and print it."""
    report.add_section(section)
    log("\n".join(report.last_section_lines()))


def _run_readers(folder: Path, options: argparse.Namespace) -> Section:
    return swap_scenario.run(
        folder, swaps=options.swaps, per_second=options.per_second, must_keep_rate=options.keep_pace
    )


def _run_replays(folder: Path, options: argparse.Namespace) -> Section:
    return replay_scenario.run(folder, snapshots=options.snapshots, per_second=options.per_second, seed=options.seed)


def _run_schema_changes(folder: Path, options: argparse.Namespace) -> Section:
    return schema_scenario.run(
        folder, publishes=options.publishes, per_second=options.per_second, must_keep_rate=options.keep_pace
    )


# The tests with readers, which need no Airflow, by command.
READER_TESTS = {"readers": _run_readers, "replays": _run_replays, "schema-changes": _run_schema_changes}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    all_tests = commands.add_parser("all", help="run all long tests, without many-feeds")
    kill = commands.add_parser("kill", help="run the kill matrix, or some of its points")
    commands.add_parser("markers", help="land twelve markers at once, while Airflow runs and while it is stopped")
    commands.add_parser("lifecycle", help="backfill and retire a feed, erase a key, rebuild a table")
    commands.add_parser("two-environments", help="publish one feed from two Airflow environments")
    commands.add_parser("region-down", help="stop storage and BigQuery during a publish")
    commands.add_parser("side-tables", help="publish while the reporting tables are disturbed")
    at_once = commands.add_parser("at-once", help="publish many feeds at once")
    at_once.add_argument("--feeds", type=int, default=feeds_at_once.FEEDS_AT_ONCE, help="number of feeds")
    many = commands.add_parser("many-feeds", help="measure an environment with many feeds")
    many.add_argument("--feeds", type=int, default=200, help="number of feeds")
    many.add_argument("--publishes", type=int, default=6, help="number of publishes")
    readers = commands.add_parser("readers", help="query the table during swaps")
    replays = commands.add_parser("replays", help="query the table during replays and rollbacks")
    schema_changes = commands.add_parser("schema-changes", help="query the table while its columns change")
    for command in (all_tests, schema_changes):
        command.add_argument("--publishes", type=int, default=20, help="number of publishes, at least six")
    for command in (all_tests, kill):
        command.add_argument(
            "--points", default="", help="names of points, moments, steps or killed processes, separated by commas"
        )
    kill.add_argument("--list", action="store_true", help="only print the points, and how each moment is hit")
    for command in (all_tests, readers):
        command.add_argument("--swaps", type=int, default=50, help="number of swaps")
    for command in (all_tests, readers, schema_changes):
        command.add_argument(
            "--keep-pace", action="store_true", help="fail if the readers ran fewer queries than --per-second demands"
        )
    for command in (all_tests, replays):
        command.add_argument(
            "--snapshots", type=int, default=10, help="number of snapshots to publish and replay, at least two"
        )
        command.add_argument("--seed", type=int, default=1, help="seed of the random order of the replays")
    for command in (all_tests, readers, replays, schema_changes):
        command.add_argument("--per-second", type=float, default=50.0, help="queries a second, all readers together")
    options = parser.parse_args(arguments)
    try:
        kill_points.select_points(getattr(options, "points", ""))
    except ValueError as error:  # now, and not after the tests that run before the kill matrix
        parser.error(str(error))
    return options


def run_on_shared_stack(stack: ProxiedStack, options: argparse.Namespace, report: Report) -> None:
    """Run those of the chosen tests that can share one stack: the kill matrix and SHARED_STACK_TESTS."""
    deliveries = DeliveryProducer(stack.landing)
    if options.command in ("all", "kill"):
        run_kill_matrix(stack, deliveries, report, kill_points.select_points(options.points))
    for command, run_test in SHARED_STACK_TESTS.items():
        if options.command in ("all", command):
            for section in run_test(stack, deliveries):
                add_section(report, section)


def run_chosen_tests(options: argparse.Namespace, folder: Path, report: Report) -> None:
    """Run the tests that the command line names, with all their files below `folder`."""
    for command, run_test in READER_TESTS.items():
        if options.command in ("all", command):
            shutil.rmtree(folder / command, ignore_errors=True)
            add_section(report, run_test(folder / command, options))
    if options.command in ("all", "kill", *SHARED_STACK_TESTS):
        with running_stack(folder / "stack") as stack:
            run_on_shared_stack(stack, options, report)
    if options.command in ("all", "lifecycle"):
        add_section(report, lifecycle.run(folder / "stack"))
    if options.command in ("all", "at-once"):
        feeds = getattr(options, "feeds", feeds_at_once.FEEDS_AT_ONCE)
        add_section(report, feeds_at_once.run(folder / "stack", feeds=feeds))
    if options.command == "many-feeds":
        add_section(report, many_feeds.run(folder / "stack", feeds=options.feeds, publishes=options.publishes))


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0, or 1 if a test failed or the tests were aborted, or INTERRUPTED."""
    options = parse_arguments(arguments)
    if getattr(options, "list", False):
        points = kill_points.select_points(options.points)
        log("\n".join(f"{point.name:<42} {point.moment.description}" for point in points))
        return 0
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, _raise_interrupt)
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".local" / "soak").resolve()
    report = Report(folder)
    try:
        run_chosen_tests(options, folder, report)
    except (HarnessError, StackError, ValueError) as error:
        report.abort(str(error))
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        report.abort("interrupted")
        print("soak: interrupted; all parts of its stack are stopped.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # a fault of a test or of the stack: the report must not call this run good
        report.abort(f"{type(error).__name__}: {error}")
        raise
    log(f"Report: {report.markdown_path}")
    return 0 if report.is_good else 1
