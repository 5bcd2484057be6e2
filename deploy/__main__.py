"""Commands about feeds and the project on Google Cloud: `python -m deploy VERB`.

They work with the profile that DEDUP_CLONE_PROFILE names, `gcp` by default.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from deploy.command_errors import run_command_line
from deploy.environment_settings import DAGS


def main(arguments: list[str], dags: Path = DAGS) -> int:
    """Returns the exit status: 0, or 1 after an error. `plan` and `doctor` have a status 2, too."""
    options = _parser().parse_args(arguments)
    # Imported now, because most verbs need not wait for what another one imports.
    run = import_module(options.module).run
    return run_command_line(options.verb, lambda: run(options, dags))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, module: str, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(module=f"deploy.{module}")
        return added

    release = verb("release", "release.command", "show what a release would change, ask, and make the changes")
    release.add_argument("--plan", action="store_true", help="show the plan and change nothing")
    release.add_argument("--yes", action="store_true", help="make the changes without asking")
    release.add_argument("--with-problems", action="store_true", help="with --yes: also if publishes will be refused")
    release.add_argument("--take-over", action="store_true", help="also replace objects that no release has uploaded")

    verb("doctor", "doctor.command", "find what is wrong in the live project, and how to fix it; 2: a check has failed")

    probe = verb("probe", "probe", "try the rules of BigQuery and Cloud Storage on which we rely, for some cents")
    probe.add_argument("--project", required=True, help="makes a throwaway dataset and two buckets in it")
    probe.add_argument("--location", required=True, help="of the dataset and the buckets")
    probe.add_argument("--policy-tag", help="resource name of a policy tag, to try what depends on one")
    probe.add_argument("--report", help="write the report to this file instead of printing it")

    plan = verb("plan", "plan", "compare feed files with the published tables; 1: problems, 2: something changes")
    plan.add_argument("--feed", help="only this feed")
    plan.add_argument("--apply", action="store_true", help="approve the shorter retention of the feed")

    recover = verb("recover", "recover", "show how to recover a feed whose records were lost")
    recover.add_argument("feed", help="the feed's name")
    recover.add_argument("--apply", action="store_true", help="carry the plan out")
    recover.add_argument("--table-is-gone", action="store_true", help="target was deleted and cannot be restored")

    feed = verb("feed", "new_feed.command", "make a feed file from landed sample files, and validate them with it")
    feed.add_argument("name", help="the feed's name")
    feed.add_argument("sample", help="a folder or gs:// URI with the Parquet files of a landed snapshot")
    feed.add_argument("--owner", help="owner of the DAGs (default: your login)")

    backfill = verb("backfill", "backfill", "show which snapshots of an archive never landed, and land them in order")
    backfill.add_argument("feed", help="the feed's name")
    backfill.add_argument("--archive", required=True, help="gs://BUCKET/FOLDER, laid out as landing")
    backfill.add_argument("--first-id", type=int, help="the lowest snapshot id to land")
    backfill.add_argument("--last-id", type=int, help="the highest snapshot id to land")
    backfill.add_argument("--apply", action="store_true", help="land the snapshots")

    move = verb("move-feed", "move_feed", "let another Airflow environment publish a feed; pause its DAGs first")
    move.add_argument("feed", help="the feed's name")
    move.add_argument("--from", dest="former", required=True, help="the environment that publishes the feed now")
    move.add_argument("--to", dest="environment", required=True, help="the environment that is to publish the feed")
    move.add_argument("--from-is-gone", action="store_true", help="move the feed even if a run of the former has begun")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
