"""Measures the dedup job beside other ways of making the same table: `python -m benchmarks main|growth|memory|all`."""

from __future__ import annotations

import argparse
import sys

from benchmarks import tables
from benchmarks.dataset import Variant
from benchmarks.peers import ENTRIES

_ROWS = {"main": 26_000_000, "growth": 26_000_000, "memory": 100_000_000}
_HELP = {
    "main": "compare the job's plans with Spark and DuckDB on the same files",
    "growth": "how the job's time grows with rows, dates, differing rows, deliveries, key types and survivors",
    "memory": "memory and use of the cores for one date, by default of 6 to 100 million rows",
}


def main(arguments: list[str]) -> int:
    """Run one sub-command or all, and print its table. Returns 1 if a peer failed or made a wrong table, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("all", help="run every sub-command with its default size")
    for name, rows in _ROWS.items():
        command = commands.add_parser(name, help=_HELP[name])
        command.add_argument("--rows", type=int, default=rows, help=f"of the (largest) snapshot, default {rows:,}")
    main_command = commands.choices["main"]
    main_command.add_argument("--variant", type=Variant, choices=list(Variant), default=Variant.UNIFORM)
    main_command.add_argument("--only", nargs="+", choices=list(ENTRIES), default=[], help="peers to measure")
    main_command.add_argument("--rounds", type=int, help="processes per peer, default 1 or 3")
    options = parser.parse_args(arguments)
    if options.command == "all":
        return max(main([name]) for name in _ROWS)
    if options.command == "main":
        text, failures = tables.compare(options.rows, options.variant, options.only, options.rounds)
    else:
        text, failures = (tables.grow if options.command == "growth" else tables.memory)(options.rows)
    print(f"\n{text}\n", flush=True)
    for peer, reason in failures.items():
        print(f"no figures of {peer}: {reason}", flush=True)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
