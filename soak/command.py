"""The command line of the long runs. Exits 0 only if everything ended well."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from devstack.stack.errors import StackError
from devstack.stack.layout import CHECKOUT
from soak import markers, points
from soak.deliveries import Deliveries
from soak.errors import SoakError
from soak.kill import KillMatrix
from soak.points import Point
from soak.readers import replays
from soak.readers import run as readers
from soak.report import Report, line_of
from soak.stack import EXAMPLE, SoakStack, running, say

LOCAL_VARIABLE = "DEDUP_CLONE_SOAK_DIR"
INTERRUPTED = 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run_points(stack: SoakStack, deliveries: Deliveries, report: Report, chosen: list[Point]) -> None:
    """All points, one after the other; before and after them a publish that nobody disturbs."""
    matrix = KillMatrix(stack, say, deliveries)
    feeds = sorted({point.feed for point in chosen})
    matrix.publish_plainly(feeds, "before the first point")
    say(f"Kill matrix: {len(chosen)} points")
    for point in chosen:
        result = matrix.run(point)
        if result.is_missed:
            say(line_of(result))
            result = matrix.run(point)
        say(line_of(result))
        report.add_point(result)
    matrix.publish_plainly(feeds, "after the last point")


def run_markers(stack: SoakStack, deliveries: Deliveries, report: Report) -> None:
    for airflow_is_down in (False, True):
        report.add_section(markers.run(stack, deliveries, EXAMPLE, airflow_is_down=airflow_is_down))
        say("\n".join(report.last_section_lines()))


def run_readers(folder: Path, report: Report, options: argparse.Namespace) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    section = readers.run(folder, swaps=options.swaps, per_second=options.per_second, must_keep_pace=options.keep_pace)
    report.add_section(section)
    say("\n".join(report.last_section_lines()))


def run_replays(folder: Path, report: Report, options: argparse.Namespace) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    seed = options.seed
    report.add_section(replays.run(folder, snapshots=options.snapshots, per_second=options.per_second, seed=seed))
    say("\n".join(report.last_section_lines()))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    everything = commands.add_parser("all", help="readers, replays, kill matrix, markers")
    kill = commands.add_parser("kill", help="the kill matrix, or some of its points")
    commands.add_parser("markers", help="twelve markers at once, with Airflow up and with Airflow down")
    read = commands.add_parser("readers", help="readers during swaps")
    replay = commands.add_parser("replays", help="replays and rollbacks under readers")
    for command in (everything, kill):
        command.add_argument("--points", default="", help="comma separated: points, moments, steps or victims")
    kill.add_argument("--list", action="store_true", help="only name the points")
    for command in (everything, read):
        command.add_argument("--swaps", type=int, default=50)
        command.add_argument("--keep-pace", action="store_true", help="fail when fewer questions could be asked")
    for command in (everything, replay):
        command.add_argument("--snapshots", type=int, default=10, help="published, then replayed; at least two")
        command.add_argument("--seed", type=int, default=1, help="the same orders of replays again")
    for command in (everything, read, replay):
        command.add_argument("--per-second", type=float, default=50.0, help="questions of all readers together")
    return parser.parse_args(arguments)


def carry_out(options: argparse.Namespace, local: Path, report: Report) -> None:
    if options.command in ("all", "readers"):
        run_readers(local / "readers", report, options)
    if options.command in ("all", "replays"):
        run_replays(local / "replays", report, options)
    if options.command in ("all", "kill", "markers"):
        chosen = points.choose(options.points) if options.command != "markers" else []
        with running(local / "stack") as stack:
            deliveries = Deliveries(stack.landing)
            if chosen:
                run_points(stack, deliveries, report, chosen)
            if options.command in ("all", "markers"):
                run_markers(stack, deliveries, report)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if getattr(options, "list", False):
        say("\n".join(point.name for point in points.choose(options.points)))
        return 0
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)
    local = Path(os.environ.get(LOCAL_VARIABLE) or CHECKOUT / ".local" / "soak").resolve()
    report = Report(local)
    try:
        carry_out(options, local, report)
    except (SoakError, StackError, ValueError) as error:
        report.give_up(str(error))
        print(f"soak: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        report.give_up("interrupted")
        print("soak: interrupted; nothing of its stack is left running.", file=sys.stderr)
        return INTERRUPTED
    say(f"Report: {report.markdown}")
    return 0 if report.is_good else 1
