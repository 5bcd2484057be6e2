"""Runs the long tests: the kill matrix, bursts of markers, disturbed reporting tables, feeds that publish at once, and
readers during swaps, replays and rollbacks. Also measures an environment with many feeds.

The exit status is 0 only if all chosen tests passed.
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
from soak import feeds_at_once, kill_points, many_feeds, marker_burst, side_tables
from soak.delivery_producer import DeliveryProducer
from soak.kill_matrix import KillMatrix
from soak.kill_points import KillPoint
from soak.readers import replay_scenario, schema_scenario, swap_scenario
from soak.report import Report, Section, summary_line
from testkit.errors import HarnessError
from testkit.proxied_stack import EXAMPLE, ProxiedStack, log, running_stack

FOLDER_VARIABLE = "DEDUP_CLONE_SOAK_DIR"  # where stacks, servers and the report are written
INTERRUPTED = 130  # the exit status that shells use after Ctrl-C


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run_kill_matrix(stack: ProxiedStack, deliveries: DeliveryProducer, report: Report, chosen: list[KillPoint]) -> None:
    """Run the chosen points of the kill matrix one after the other, and publish without a kill before and after them.

    A point is one process that is killed at one moment of a publish. It runs a second time if the moment did not come.
    """
    matrix = KillMatrix(stack, deliveries)
    feeds = sorted({point.feed for point in chosen})
    matrix.publish_without_kill(feeds, "before the first point")
    log(f"Kill matrix: {len(chosen)} points")
    for point in chosen:
        result = matrix.run(point)
        if result.is_missed:
            log(summary_line(result))
            result = matrix.run(point)
        log(summary_line(result))
        report.add_point(result)
    matrix.publish_without_kill(feeds, "after the last point")


def run_marker_bursts(stack: ProxiedStack, deliveries: DeliveryProducer, report: Report) -> None:
    """Land many markers at once, first while Airflow runs and then while it is stopped."""
    for airflow_is_down in (False, True):
        add(report, marker_burst.run(stack, deliveries, EXAMPLE, airflow_is_down=airflow_is_down))


def add(report: Report, section: Section) -> None:
    report.add_section(section)
    log("\n".join(report.last_section_lines()))


def run_readers(folder: Path, report: Report, options: argparse.Namespace) -> None:
    """Query the table while publishes swap it."""
    shutil.rmtree(folder, ignore_errors=True)
    section = swap_scenario.run(
        folder, swaps=options.swaps, per_second=options.per_second, must_keep_rate=options.keep_pace
    )
    add(report, section)


def run_replays(folder: Path, report: Report, options: argparse.Namespace) -> None:
    """Query the table during replays and rollbacks."""
    shutil.rmtree(folder, ignore_errors=True)
    section = replay_scenario.run(folder, snapshots=options.snapshots, per_second=options.per_second, seed=options.seed)
    add(report, section)


def run_schema_changes(folder: Path, report: Report, options: argparse.Namespace) -> None:
    """Query the table while its columns change."""
    shutil.rmtree(folder, ignore_errors=True)
    add(report, schema_scenario.run(folder, publishes=options.publishes, per_second=options.per_second))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    all_tests = commands.add_parser("all", help="run all long tests, without many-feeds")
    kill = commands.add_parser("kill", help="run the kill matrix, or some of its points")
    commands.add_parser("markers", help="land twelve markers at once, while Airflow runs and while it is stopped")
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
    kill.add_argument("--list", action="store_true", help="only print the names of the points")
    for command in (all_tests, readers):
        command.add_argument("--swaps", type=int, default=50, help="number of swaps")
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
    return parser.parse_args(arguments)


def run_chosen(options: argparse.Namespace, folder: Path, report: Report) -> None:
    """Run the tests that the command line names. All their files are below `folder`."""
    if options.command in ("all", "readers"):
        run_readers(folder / "readers", report, options)
    if options.command in ("all", "replays"):
        run_replays(folder / "replays", report, options)
    if options.command in ("all", "schema-changes"):
        run_schema_changes(folder / "schema-changes", report, options)
    if options.command in ("all", "kill", "markers"):
        chosen = kill_points.select_points(options.points) if options.command != "markers" else []
        with running_stack(folder / "stack") as stack:
            deliveries = DeliveryProducer(stack.landing)
            if chosen:
                run_kill_matrix(stack, deliveries, report, chosen)
            if options.command in ("all", "markers"):
                run_marker_bursts(stack, deliveries, report)
    if options.command in ("all", "side-tables"):
        add(report, side_tables.run(folder / "stack"))
    if options.command in ("all", "at-once"):
        feeds = getattr(options, "feeds", feeds_at_once.FEEDS_AT_ONCE)
        add(report, feeds_at_once.run(folder / "stack", feeds=feeds))
    if options.command == "many-feeds":
        add(report, many_feeds.run(folder / "stack", feeds=options.feeds, publishes=options.publishes))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if getattr(options, "list", False):
        log("\n".join(point.name for point in kill_points.select_points(options.points)))
        return 0
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, _interrupt)
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".local" / "soak").resolve()
    report = Report(folder)
    try:
        run_chosen(options, folder, report)
    except (HarnessError, StackError, ValueError) as error:
        report.abort(str(error))
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        report.abort("interrupted")
        print("soak: interrupted; all parts of its stack are stopped.", file=sys.stderr)
        return INTERRUPTED
    log(f"Report: {report.markdown}")
    return 0 if report.is_good else 1
