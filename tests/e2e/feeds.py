"""The feeds of the tests' stack: those of dags/feeds, and copies of the worked example with other settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from testkit.stack_snapshots import COLUMNS
from tests.e2e.in_airflow import NOTIFIER, add_asking_dag

EXAMPLE = "worked_example"
WITH_CHANGES = "product_attributes"
BOUNDED = "bounded"
ENDED_BADLY = FAILED, MARKED_FAILED, MARKED_SUCCESS, DELETED, KILLED = (
    "ended_failed",
    "ended_marked_failed",
    "ended_marked_success",
    "ended_deleted",
    "ended_killed",
)
DISTURBED, CONTESTED = "disturbed", "contested"
# Those of the engines in SQL have had a run that ended badly, if tests/e2e/test_ended_runs.py is selected.
ENGINES = {KILLED: "bigquery", DELETED: "merge", "with_cdc": "cdc", "with_procedure": "spark"}
ALERTS = "alerts.jsonl"
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
RETENTION_DAY = TODAY - timedelta(days=700)  # the oracle drops older rows; no snapshot has any
DECLARED = [{"name": name, "type": "DATE" if name == "date" else "INT64"} for name in COLUMNS]


def write_feed(dags: Path, feed: str, **settings: Any) -> None:
    """Write a copy of the worked example's feed file. `dags`: the copied folder of the DAGs.

    `settings`: other values of the file's top-level keys. A mapping replaces single values of the section of that name.
    """
    values = yaml.safe_load((dags / "feeds" / f"{EXAMPLE}.yaml").read_text())
    values |= {"feed": feed, "landing": {"prefix": feed}}
    for name, value in settings.items():
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    (dags / "feeds" / f"{feed}.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def keep_only(dags: Path, *feeds: str) -> None:
    """Delete the files of all other feeds."""
    for path in (dags / "feeds").glob("*.yaml"):
        if path.stem not in feeds:
            path.unlink()


def add_feeds(dags: Path, *, with_soak: bool) -> None:
    """Leave and add the feeds that tests of the shared stack use: each takes about 0.05 cores while it is idle.

    `with_soak`: also the one that only a soak test uses. The file with the alerts is beside the folder of the DAGs.
    """
    keep_only(dags, EXAMPLE, WITH_CHANGES)
    write_feed(dags, DISTURBED)
    write_feed(dags, BOUNDED, checks={"max_changed_share": 0.5})
    if with_soak:
        write_feed(dags, CONTESTED)
    for feed in ENDED_BADLY:
        write_feed(dags, feed, engine=ENGINES.get(feed, "bigquery"))
    cdc = {"max_changed_share": 1.0, "max_staleness_minutes": 1}
    write_feed(dags, "with_cdc", engine="cdc", update_id_mode="last_changed", cdc=cdc)
    write_feed(dags, "with_procedure", runner="bigquery_procedure")
    with_changes = dags / "feeds" / f"{WITH_CHANGES}.yaml"
    with_changes.write_text(f"{with_changes.read_text()}changes: true\n")
    add_asking_dag(dags)
    profile = dags / "profiles" / "local.yaml"
    notifier = {"class_path": NOTIFIER, "arguments": {"path": str(dags.parent / ALERTS)}}
    settings = yaml.safe_load(profile.read_text())
    profile.write_text(yaml.safe_dump({**settings, "alerts": {"notifiers": [notifier]}}))
