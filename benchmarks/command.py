"""The command line: measures, prints the table, and puts it into docs when it was made with the default sizes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import cloud_storage, comparison, fixed_cost, full_size, growth, memory
from benchmarks.document import replace_part
from benchmarks.layout import CHECKOUT, PEERS_PYTHON
from benchmarks.peers.registry import ENTRIES
from benchmarks.results import Results, load
from benchmarks.shape import Variant

_PAGE = CHECKOUT / "docs/benchmarks.md"
_COSTS = CHECKOUT / "docs/costs.md"


@dataclass(frozen=True)
class _Part:
    """One sub-command: what it measures when no size is given, and its table's text."""

    rows: int
    help: str
    run: Callable[[argparse.Namespace], Results]
    report: Callable[[Results, int], str]


_PARTS = {
    comparison.COMMAND: _Part(
        comparison.ROWS,
        "the job's plans beside every peer",
        lambda options: comparison.run(options.rows, options.variant, options.only, options.rounds),
        lambda results, rows: comparison.report(results),
    ),
    growth.COMMAND: _Part(
        growth.ROWS,
        "rows, dates, differences, keys, survivors",
        lambda options: growth.run(options.rows),
        growth.report,
    ),
    memory.COMMAND: _Part(
        memory.ROWS, "one date of 2 to 128 million rows", lambda options: memory.run(options.rows), memory.report
    ),
    fixed_cost.COMMAND: _Part(
        fixed_cost.ROWS,
        "the job as a cold process",
        lambda options: fixed_cost.run(options.rows),
        lambda results, rows: fixed_cost.report(results),
    ),
    cloud_storage.COMMAND: _Part(
        cloud_storage.ROWS,
        "gs:// beside files",
        lambda options: cloud_storage.run(options.rows),
        lambda results, rows: cloud_storage.report(results),
    ),
}
_MODEL = "model"


def main(arguments: list[str]) -> int:
    """Exits 0 only if every peer gave the right table."""
    options = _parse(arguments)
    if options.command == _MODEL:
        _model()
        return 0
    if options.command != "all":
        return int(bool(_measure(options.command, options)))
    failures = [_measure(name, _parse([name])) for name in _PARTS]
    _model()
    return int(any(failures))


def _measure(name: str, options: argparse.Namespace) -> dict[str, str]:
    part = _PARTS[name]
    results = part.run(options)
    if results.failures and name != comparison.COMMAND:
        print(f"\nNo table of [{name}]: {results.failures}\n", flush=True)
        return results.failures
    text = part.report(results, options.rows)
    print(f"\n{name}\n\n{text}\n", flush=True)
    if results.is_default_size:
        replace_part(_PAGE, name, text)
    return results.failures


def _model() -> None:
    measured, growing, large = (load(name) for name in (comparison.COMMAND, growth.COMMAND, memory.COMMAND))
    if not measured or not growing or not large:
        raise SystemExit("The model needs results of `main`, `growth`, `memory` at default sizes: run these first.")
    text = full_size.report(measured, growing, large)
    print(text)
    replace_part(_COSTS, "full size", text)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("all", help="everything at its default size, then the model (`make bench`)")
    commands.add_parser(_MODEL, help="the cost of the full size, from the results of main and growth")
    for name, part in _PARTS.items():
        command = commands.add_parser(name, help=part.help)
        command.add_argument("--rows", type=int, default=part.rows, help=f"rows a side, default {part.rows:,}")
    main_command = commands.choices[comparison.COMMAND]
    main_command.add_argument("--variant", type=Variant, choices=list(Variant), default=Variant.UNIFORM)
    main_command.add_argument("--only", type=_names, default=[], help=f"peers, comma separated: {', '.join(ENTRIES)}")
    main_command.add_argument("--rounds", type=int, help="of every peer; by default slow ones have one or two")
    options = parser.parse_args(arguments)
    if not PEERS_PYTHON.exists() and options.command != _MODEL:
        parser.error(f"[{PEERS_PYTHON}] is not there: `make bench-setup` installs the peers.")
    return options


def _names(text: str) -> list[str]:
    unknown = set(text.split(",")) - ENTRIES.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer [{', '.join(sorted(unknown))}], expected some of {list(ENTRIES)}")
    return text.split(",")
