"""Runs the chosen long tests. The exit status is 0 only if all of them passed."""

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
from soak import kill_points, marker_burst
from soak.delivery_producer import DeliveryProducer
from soak.kill_matrix import KillMatrix
from soak.kill_points import KillPoint
from soak.readers import replay_scenario, swap_scenario
from soak.report import Report, line_of
from testkit.errors import HarnessError
from testkit.proxied_stack import EXAMPLE, ProxiedStack, log, running_stack

LOCAL_VARIABLE = "DEDUP_CLONE_SOAK_DIR"
INTERRUPTED = 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run_points(stack: ProxiedStack, deliveries: DeliveryProducer, report: Report, chosen: list[KillPoint]) -> None:
    """Run the chosen points one after the other, with an undisturbed publish before and after them."""
    matrix = KillMatrix(stack, deliveries)
    feeds = sorted({point.feed for point in chosen})
    matrix.publish_undisturbed(feeds, "before the first point")
    log(f"Kill matrix: {len(chosen)} points")
    for point in chosen:
        result = matrix.run(point)
        if result.is_missed:
            log(line_of(result))
            result = matrix.run(point)
        log(line_of(result))
        report.add_point(result)
    matrix.publish_undisturbed(feeds, "after the last point")


def run_markers(stack: ProxiedStack, deliveries: DeliveryProducer, report: Report) -> None:
    for airflow_is_down in (False, True):
        report.add_section(marker_burst.run(stack, deliveries, EXAMPLE, airflow_is_down=airflow_is_down))
        log("\n".join(report.last_section_lines()))


def run_readers(folder: Path, report: Report, options: argparse.Namespace) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    rate, must_keep_rate = options.per_second, options.keep_pace
    report.add_section(swap_scenario.run(folder, swaps=options.swaps, per_second=rate, must_keep_rate=must_keep_rate))
    log("\n".join(report.last_section_lines()))


def run_replays(folder: Path, report: Report, options: argparse.Namespace) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    seed = options.seed
    report.add_section(
        replay_scenario.run(folder, snapshots=options.snapshots, per_second=options.per_second, seed=seed)
    )
    log("\n".join(report.last_section_lines()))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    everything = commands.add_parser("all", help="readers, replays, kill matrix, markers")
    kill = commands.add_parser("kill", help="the kill matrix, or some of its points")
    commands.add_parser("markers", help="twelve markers at once, with Airflow up and with Airflow down")
    read = commands.add_parser("readers", help="readers during swaps")
    replay = commands.add_parser("replays", help="replays and rollbacks under readers")
    for command in (everything, kill):
        command.add_argument("--points", default="", help="names of points, moments, steps or victims, comma separated")
    kill.add_argument("--list", action="store_true", help="only print the names of the points")
    for command in (everything, read):
        command.add_argument("--swaps", type=int, default=50, help="number of swaps")
        command.add_argument(
            "--keep-pace", action="store_true", help="fail when the readers could run fewer queries than asked for"
        )
    for command in (everything, replay):
        command.add_argument(
            "--snapshots", type=int, default=10, help="number of snapshots to publish and replay, at least two"
        )
        command.add_argument("--seed", type=int, default=1, help="of the random order of the replays")
    for command in (everything, read, replay):
        command.add_argument("--per-second", type=float, default=50.0, help="queries of all readers together")
    return parser.parse_args(arguments)


def run_chosen(options: argparse.Namespace, local: Path, report: Report) -> None:
    if options.command in ("all", "readers"):
        run_readers(local / "readers", report, options)
    if options.command in ("all", "replays"):
        run_replays(local / "replays", report, options)
    if options.command in ("all", "kill", "markers"):
        chosen = kill_points.select_points(options.points) if options.command != "markers" else []
        with running_stack(local / "stack") as stack:
            deliveries = DeliveryProducer(stack.landing)
            if chosen:
                run_points(stack, deliveries, report, chosen)
            if options.command in ("all", "markers"):
                run_markers(stack, deliveries, report)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if getattr(options, "list", False):
        log("\n".join(point.name for point in kill_points.select_points(options.points)))
        return 0
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)
    local = Path(os.environ.get(LOCAL_VARIABLE) or CHECKOUT / ".local" / "soak").resolve()
    report = Report(local)
    try:
        run_chosen(options, local, report)
    except (HarnessError, StackError, ValueError) as error:
        report.give_up(str(error))
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        report.give_up("interrupted")
        print("soak: interrupted; all parts of its stack are stopped.", file=sys.stderr)
        return INTERRUPTED
    log(f"Report: {report.markdown}")
    return 0 if report.is_good else 1
