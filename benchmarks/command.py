"""Measures the dedup job and its peers, which make the same table in other ways, and prints the results as a table.

A run with the default size also writes the table into docs/benchmarks.md. `model` writes its tables into docs/costs.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import cloud_storage, fixed_cost, full_size_report, growth, memory, peer_comparison
from benchmarks.dataset_shape import Variant
from benchmarks.docs_tables import replace_part
from benchmarks.full_size_model import NEEDED_PEERS
from benchmarks.paths import CHECKOUT, PEERS_PYTHON
from benchmarks.peers.registry import ENTRIES
from benchmarks.results import Results, load

_BENCHMARKS_PAGE = CHECKOUT / "docs/benchmarks.md"
_COSTS_PAGE = CHECKOUT / "docs/costs.md"


@dataclass(frozen=True)
class _SubCommand:
    """A sub-command that measures. `rows`: the default number of rows in its snapshot, or in its largest snapshot.

    `run`: measures. `report`: returns the table in Markdown; its second argument is the number of rows from `--rows`.
    """

    rows: int
    help: str
    run: Callable[[argparse.Namespace], Results]
    report: Callable[[Results, int], str]


_SUB_COMMANDS = {
    peer_comparison.COMMAND: _SubCommand(
        peer_comparison.ROWS,
        "compare the job's plans with all peers (Spark, DuckDB, Polars, delta-rs) on the same files",
        lambda options: peer_comparison.run(options.rows, options.variant, options.only, options.rounds),
        lambda results, rows: peer_comparison.report(results),
    ),
    growth.COMMAND: _SubCommand(
        growth.ROWS,
        "measure how the job's time grows with rows, dates, differing rows, deliveries, key types and survivors",
        lambda options: growth.run(options.rows),
        growth.report,
    ),
    memory.COMMAND: _SubCommand(
        memory.ROWS,
        "measure memory and use of the cores for one date, by default of 6 to 100 million rows",
        lambda options: memory.run(options.rows),
        memory.report,
    ),
    fixed_cost.COMMAND: _SubCommand(
        fixed_cost.ROWS,
        "measure the time that does not depend on rows: the job in a new process and in a warm one",
        lambda options: fixed_cost.run(options.rows),
        lambda results, rows: fixed_cost.report(results),
    ),
    cloud_storage.COMMAND: _SubCommand(
        cloud_storage.ROWS,
        "compare the job on local files with the job on an emulated Cloud Storage",
        lambda options: cloud_storage.run(options.rows),
        lambda results, rows: cloud_storage.report(results),
    ),
}
_MODEL = "model"


def main(arguments: list[str]) -> int:
    """Run one sub-command or all. Returns the exit status: 1 if a peer failed or made a wrong table, else 0."""
    options = _parse(arguments)
    if options.command == _MODEL:
        _write_cost_tables()
        return 0
    if options.command != "all":
        return int(bool(_run(options.command, options)))
    failures = [_run(name, _parse([name])) for name in _SUB_COMMANDS]
    _write_cost_tables()
    return int(any(failures))


def _run(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Run a sub-command. Returns, for each peer that has no figures, the reason."""
    sub_command = _SUB_COMMANDS[name]
    results = sub_command.run(options)
    if results.failures and name != peer_comparison.COMMAND:
        print(f"\nNo table of [{name}]: {results.failures}\n", flush=True)
        return results.failures
    text = sub_command.report(results, options.rows)
    print(f"\n{name}\n\n{text}\n", flush=True)
    if results.is_default_size:
        replace_part(_BENCHMARKS_PAGE, name, text)
    return results.failures


def _write_cost_tables() -> None:
    """Write the model's tables into docs/costs.md. Raises SystemExit when results that they need are missing."""
    main_results, growth_results, memory_results = (
        load(name) for name in (peer_comparison.COMMAND, growth.COMMAND, memory.COMMAND)
    )
    if not main_results or not growth_results or not memory_results:
        raise SystemExit("`model` needs results of `main`, `growth` and `memory` with default sizes: run these first.")
    missing = [peer for peer in NEEDED_PEERS if not main_results.figures_of(peer)]
    if missing:
        raise SystemExit(f"`model` needs figures of [{', '.join(missing)}] in the results of `main`: run `main` again.")
    parts = {
        "prices": full_size_report.prices(main_results),
        "full size": full_size_report.report(main_results, growth_results, memory_results),
    }
    for name, text in parts.items():
        print(f"\n{text}")
        replace_part(_COSTS_PAGE, name, text)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("all", help="run every sub-command with its default size (`make bench`)")
    commands.add_parser(_MODEL, help="compute costs at full size from stored results of main, growth and memory")
    for name, sub_command in _SUB_COMMANDS.items():
        command = commands.add_parser(name, help=sub_command.help)
        help_text = f"rows of the (largest) snapshot, default {sub_command.rows:,}"
        command.add_argument("--rows", type=int, default=sub_command.rows, help=help_text)
    main_command = commands.choices[peer_comparison.COMMAND]
    main_command.add_argument(
        "--variant", type=Variant, choices=list(Variant), default=Variant.UNIFORM, help="kind of generated data"
    )
    main_command.add_argument(
        "--only", type=_parse_names, default=[], help=f"peers to measure, comma separated: {', '.join(ENTRIES)}"
    )
    main_command.add_argument("--rounds", type=int, help="processes per peer, default 1 to 3, fewer for slow peers")
    options = parser.parse_args(arguments)
    if not PEERS_PYTHON.exists() and options.command != _MODEL:
        parser.error(f"[{PEERS_PYTHON}] does not exist: `make bench-setup` installs the peers.")
    return options


def _parse_names(text: str) -> list[str]:
    """The names of peers in a text with commas. Raises ArgumentTypeError for an unknown name."""
    unknown = set(text.split(",")) - ENTRIES.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer [{', '.join(sorted(unknown))}], expected some of {list(ENTRIES)}")
    return text.split(",")
