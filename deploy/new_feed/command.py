"""The verb `feed`: makes a feed file from landed sample files, and validates the first of these with it."""

from __future__ import annotations

import argparse
import getpass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.feed import Feed, read_feed
from dedup_spark.landing.file_validation import FileValidator, LandedFile
from deploy.new_feed.feed_text import feed_text
from deploy.new_feed.proposal import Proposal, propose
from deploy.new_feed.sample import Sample, find_sample, read_columns

FILES_VALIDATED = 50
PROBLEMS_SHOWN = 10


def run(options: argparse.Namespace, dags: Path) -> int:
    """Returns the exit status: 1 if a validated file would be refused with the new feed file.

    Only the first FILES_VALIDATED files are validated. Expired rows are only reported, because the job drops them.
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
    print(f"{path}: {len(feed.table.columns)} columns, keys {list(feed.table.keys)}, {_uniqueness(proposal)}")
    if proposal.unique_without_date:
        print(_date_warning(proposal))
    if proposal.expired_rows:
        days = feed.table.retention_days
        print(f"{proposal.expired_rows} of {proposal.rows} rows are older than {days} days, and will be dropped")
    print(_retention_warning(path, feed.table.retention_days, proposal))
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


def _date_warning(proposal: Proposal) -> str:
    ids = ", ".join(proposal.ids)
    return (
        f"WARNING: [{ids}] is unique without [{proposal.table.partition_column}], too. A row whose date changes from "
        f"one snapshot to the next then stands in the table on both dates. If that must not be, add "
        f"`checks: {{unique_across_dates: [{ids}]}}` (docs/deliver-snapshots.md, keep an id on one date)."
    )


def _retention_warning(path: Path, days: int, proposal: Proposal) -> str:
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "retention_days:" in text)
    reason = f"the sample's oldest date is {proposal.first}"
    if proposal.expired_rows:
        reason += ", and no feed may keep more days"
    return (
        f"WARNING: retention_days is {days} only because {reason}. BigQuery "
        f"deletes older days from the table, and a publish drops their rows: set line {line} of {path} to the days "
        f"that readers need."
    )


def _uniqueness(proposal: Proposal) -> str:
    if not proposal.surplus_rows:
        return f"unique in {proposal.rows} rows"
    unfit = "".join(f"; column [{name}] would help, but {why}" for name, why in proposal.unfit_keys.items())
    return f"not unique: {proposal.surplus_rows} of {proposal.rows} rows repeat a key{unfit}"
