"""`python -m deploy.probe`: tests assumptions about Google Cloud in a throwaway dataset and two GCS buckets."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError
from deploy.command_errors import run_command_line
from deploy.environment_settings import read_profile
from deploy.probe.all_assumptions import all_assumptions, try_all
from deploy.probe.assumption import ProbeVerdict
from deploy.probe.probe_dataset import BUDGET_USD, Clients, throwaway_dataset
from deploy.probe.probe_report import as_markdown


def live_clients(project: str | None, location: str | None, policy_tag: str | None) -> Clients:
    """Clients with the user's own credentials.

    Project and location are taken from the profile if they are None. Nothing else that the profile names needs to exist
    yet. The variables that name local servers are removed from the environment of this process.
    """
    from google.cloud import bigquery, storage

    if project is None or location is None:
        profile = read_profile()
        project, location = project or profile.project, location or profile.location
    for variable in ("BIGQUERY_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        os.environ.pop(variable, None)  # this shell may have been used for the local stack
    return Clients(
        bigquery.Client(project=project, location=location),
        storage.Client(project=project),
        project,
        location,
        f"project {project}",
        policy_tag,
    )


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0, or 2 if an assumption does not hold or for a wrong option, 1 if it could not run."""
    parser = argparse.ArgumentParser(prog="python -m deploy.probe", description=__doc__)
    parser.add_argument("--report", type=Path, help="write the report to this file instead of printing it")
    parser.add_argument("--project", help="the project to test; by default that of the profile")
    parser.add_argument("--location", help="location of the throwaway dataset and buckets; by default the profile's")
    parser.add_argument("--policy-tag", help="resource name of a policy tag, to try what depends on one")
    options = parser.parse_args(arguments)
    return run_command_line(
        "probe", lambda: run_probe(live_clients(options.project, options.location, options.policy_tag), options.report)
    )


def run_probe(clients: Clients, report_file: Path | None) -> int:
    """Test all assumptions, and write the report. Raises ConfigurationError at once if the file cannot be written."""
    if report_file is not None:
        _require_writable(report_file)
    with throwaway_dataset(clients) as probe:
        buckets = f"[{probe.bucket.name}] and [{probe.landing_bucket.name}]"
        _log(f"Dataset [{probe.dataset}] and buckets {buckets} are deleted at the end. If the probe is killed, run:")
        _log(f"  {probe.clean_up_command}")
        _log(f"The probe starts no more queries after it has spent {BUDGET_USD} USD; a few cents are expected.")
        results = try_all(probe, all_assumptions(), _log)
        report = as_markdown(results, probe, clients.server, datetime.now(UTC))
        # The report is written before the dataset is deleted, because the deletion may fail.
        if report_file is None:
            print(report, flush=True)
        else:
            report_file.write_text(report, encoding="utf-8")
    return 2 if any(result.verdict is ProbeVerdict.DOES_NOT_HOLD for result in results) else 0


def _require_writable(report_file: Path) -> None:
    try:
        report_file.touch()
    except OSError as error:
        raise ConfigurationError(
            f"The report cannot be written to [{report_file}]: {error.strerror}. Name a file in a folder that exists."
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
