"""`python -m deploy.probe`: what the live project does, in a throwaway dataset and bucket. Prints the report."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from deploy.command import run_command_line
from deploy.probe.assumption import Verdict
from deploy.probe.report import as_markdown
from deploy.probe.run import all_assumptions, try_all
from deploy.probe.world import BUDGET_USD, Clients, throwaway_world
from deploy.settings import read_profile


def live_clients() -> Clients:
    """With the person's own credentials, for the project and location of the profile."""
    from google.cloud import bigquery, storage

    profile = read_profile()
    for variable in ("BIGQUERY_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        os.environ.pop(variable, None)  # the live project is meant, whatever this shell was used for
    return Clients(
        bigquery.Client(project=profile.project, location=profile.location),
        storage.Client(project=profile.project),
        profile.project,
        profile.location,
        f"project {profile.project}",
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Ends with 2 when an assumption does not hold."""
    parser = argparse.ArgumentParser(prog="python -m deploy.probe", description=__doc__)
    parser.add_argument("--report", type=Path, help="write the report to this file instead of printing it")
    options = parser.parse_args(arguments)
    return run_command_line("probe", lambda: probe(live_clients(), options.report))


def probe(clients: Clients, report_file: Path | None) -> int:
    """Try everything and write the report."""
    with throwaway_world(clients) as world:
        _say(f"Dataset [{world.dataset}] and bucket [{world.bucket.name}] are deleted at the end.")
        _say(f"Queries stop at {BUDGET_USD} USD; some cents at most are expected.")
        results = try_all(world, all_assumptions(), _say)
        report = as_markdown(results, world, clients.server, datetime.now(UTC))
    if report_file is None:
        print(report)
    else:
        report_file.write_text(report, encoding="utf-8")
    return 2 if any(result.verdict is Verdict.DOES_NOT_HOLD for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
