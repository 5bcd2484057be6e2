"""The verb `feed`: makes a feed file from landed sample files, and validates the first of these with it."""

from __future__ import annotations

import argparse
import getpass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import MAX_RETENTION_DAYS
from dedup_clone.settings.feed import Feed, read_feed
from dedup_spark.landing.file_validation import FileValidator, LandedFile
from deploy.new_feed.feed_text import feed_text
from deploy.new_feed.proposal import Proposal, propose
from deploy.new_feed.sample import Sample, find_sample, read_columns

FILES_VALIDATED = 50
PROBLEMS_SHOWN = 10


def run(options: argparse.Namespace, dags: Path) -> int:
    """Returns the exit status: 1 if a validated file would be refused with the new feed file.

    Only the first FILES_VALIDATED files are validated.
    """
    feeds = dags / "feeds"
    path = feeds / f"{options.name}.yaml"
    if path.parent != feeds:
        raise ConfigurationError(
            f"Feed [{options.name}] has a slash in its name: choose one of letters, digits and `_`."
        )
    if path.exists():
        raise ConfigurationError(f"Feed file [{path}] exists: choose another name, or delete the file first.")
    owner = options.owner or _login()
    sample = find_sample(options.sample)
    proposal = propose(sample)
    feed = _write(path, feed_text(options.name, owner, sample, proposal))
    files = sample.files[:FILES_VALIDATED]
    print(f"{path}: {len(feed.table.columns)} columns, keys {list(feed.table.keys)}. Its comments say what was found.")
    days = feed.table.retention_days
    print(
        f"WARNING: retention_days is {days} only because the sample's oldest date is {proposal.first}, and no feed may "
        f"keep more than {MAX_RETENTION_DAYS} days: set the days that readers need. A publish drops older rows, of "
        f"this sample {proposal.expired_rows} of {proposal.rows}."
    )
    problems = validate(feed, sample, proposal)
    if problems:
        print(f"{len(problems)} problems were found. {len(files)} of {len(sample.files)} files were validated:")
        print("\n".join(f"  {problem}" for problem in problems[:PROBLEMS_SHOWN]))
        return 1
    print(f"{len(files)} of {len(sample.files)} files are valid with it. Read it. On the local stack that is all:")
    print("its DAGs appear within a minute. On Google Cloud: `make plan`, then `make deploy` (docs/feeds.md).")
    return 0


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # in a container a user can have an id without a name
        raise ConfigurationError("Your user has no login name: name the owner of the DAGs with `--owner`") from error


def _write(path: Path, text: str) -> Feed:
    """Write the file, and read it as Airflow will. If it is invalid, delete it and raise ConfigurationError."""
    path.write_text(text, encoding="utf-8")
    try:
        return read_feed(path)
    except ConfigurationError:
        path.unlink()
        raise


def validate(feed: Feed, sample: Sample, proposal: Proposal) -> list[str]:
    """The problems for which the dedup job would refuse any of the first FILES_VALIDATED files. Reads all values."""
    snapshot_id = sample.snapshot_id
    if snapshot_id is None:
        column = proposal.table.snapshot_id_column
        snapshot_id = int(pc.min(read_columns(sample, [column], 1)[column]).as_py())
    # As in a publish of today, rows may have dates until tomorrow.
    validator = FileValidator(feed.table.to_contract(), datetime.now(UTC).date() + timedelta(days=1))
    landed = [
        LandedFile(file.uri, file.size, snapshot_id, file.folder[1] if sample.date_column and file.folder else None)
        for file in sample.files[:FILES_VALIDATED]
    ]
    return [problem for file in landed for problem in validator(file).problems]
