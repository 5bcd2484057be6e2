"""Assumptions about whole publishes, tested with this project's own steps, SQL files, checks and clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

from google.api_core.exceptions import BadRequest, Conflict, GoogleAPIError, MethodNotImplemented

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.ledger import LedgerRecord
from deploy.probe.assumption import AssumptionTest, DoesNotHold, Register, expect
from deploy.probe.probe_dataset import ProbeDataset
from testkit.feed_against_oracle import FeedAgainstOracle, feed_of
from testkit.feed_on_stand_in import Places
from testkit.oracle import comparable
from testkit.table_contracts import NESTED

assumption = Register()
# Has a column of every type that a feed may have.
TABLE = replace(NESTED, columns=(*NESTED.columns, Column("at", "TIMESTAMP"), Column("local_at", "DATETIME")))
MOMENT = datetime(2026, 1, 31, 1, 2, 3, 456789, tzinfo=UTC)  # with microseconds, so that their loss would be found


class PublishedFeed(FeedAgainstOracle):
    """A feed whose commit raises DoesNotHold if a check after the swap fails. In the DAG such a commit fails, too."""

    def commit(self, spec: PublishSpec) -> LedgerRecord:
        record, results = commit_attempt(self.services, spec.attempt)
        failed = [str(check) for check in results.items if check.level is Level.FAIL]
        expect("checks that failed after the swap", failed, [])
        return record


def publishing(
    test: Callable[[ProbeDataset, PublishedFeed], str], table: TableContract = TABLE, engine: Engine = Engine.BIGQUERY
) -> AssumptionTest:
    """Gives the test a new feed. An error that a step of a publish raises becomes DoesNotHold."""

    @wraps(test)
    def with_feed(probe: ProbeDataset) -> str:
        project, dataset = probe.dataset.split(".")
        places = Places(project, dataset, probe.location, probe.landing_bucket.name, probe.bucket.name)
        feed = feed_of(table, engine)
        started = datetime.now(UTC)
        try:
            return test(probe, PublishedFeed((probe.storage, probe.client), feed, places))
        except (DoesNotHold, MethodNotImplemented):
            raise
        except (DedupCloneError, GoogleAPIError, AssertionError) as error:
            raise DoesNotHold(f"A step of the publish failed: {type(error).__name__}: {error}") from error
        finally:
            jobs = probe.client.list_jobs(min_creation_time=started, state_filter="done")
            probe.billed_bytes += sum(getattr(job, "total_bytes_billed", 0) or 0 for job in jobs)

    return with_feed


def rows(probe: ProbeDataset, snapshot_id: int, *, keys: int = 4) -> list[dict[str, Any]]:
    """The snapshot's rows of two days, with `keys` keys a day. One row a day is NULL in every nullable column."""
    found = []
    for day in (probe.days_ago(1), probe.today):
        for number in range(keys):
            empty = number == 0
            found.append(
                {
                    "amount": None if empty else -0.5 * number,
                    "name": f"n\u00e4me {number}",
                    "day": day,
                    "note": None if empty else f"snapshot {snapshot_id}",
                    "seen": None if empty else number % 2 == 0,
                    "raw": None if empty else bytes([0, 255, number]),
                    "code": -number,
                    "tags": [] if empty else ["a", "", f"{snapshot_id}"],
                    "info": None if empty else {"weight": 1.25, "label": None},
                    "parts": [] if empty else [{"number": number, "price": None}],
                    "version": snapshot_id,
                    "at": None if empty else MOMENT,
                    "local_at": None if empty else MOMENT.replace(tzinfo=None),
                }
            )
    return found


def expect_rows(feed: PublishedFeed, expected: list[dict[str, Any]]) -> None:
    expect("rows of target", feed.table_rows(), comparable(feed.oracle_table, expected))


@assumption(
    "publish-of-every-type",
    statement="External tables, loads and CLONE change no value of any type, no NULL and no microsecond",
    rule="engines/, warehouse/row_expressions.py. If it does not hold: publish no columns of the type that differs.",
)
@publishing
def every_type(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes one snapshot with engine bigquery, with all checks before and after the swap, and reads target."""
    landed = rows(probe, 1)
    record = feed.publish(feed.land(1, landed))
    expect_rows(feed, landed)
    return f"{len(landed)} rows of {len(TABLE.columns)} columns, published as generation {record.generation}."


@assumption(
    "publish-replaces-target",
    statement="A later publish's swap finds the parent in target's labels and replaces target, and all checks pass",
    rule="sql/publish/swap_target.sql, checks/table_checks.py, publish/check.py (T in whole milliseconds).",
)
@publishing
def replaces_target(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes two snapshots with engine bigquery and one with merge. A key that the second one lacks stays."""
    feed.publish(feed.land(1, rows(probe, 1)))
    feed.publish(feed.land(2, rows(probe, 2, keys=3)))
    lacking = [row for row in rows(probe, 1) if row["name"].endswith("3")]
    expect_rows(feed, rows(probe, 2, keys=3) + lacking)
    feed.publish(feed.land(3, rows(probe, 3, keys=3)), engine=Engine.MERGE)
    expect_rows(feed, rows(probe, 3, keys=3) + lacking)
    return "The second and the third publish were built on the one before; all checks passed."


@assumption(
    "publish-keeps-a-primary-key",
    statement="A table with a primary key is loaded, cloned and replaced like one without",
    rule="publish/load.py, sql/publish/swap_target.sql. If it does not hold: drop the constraint from staging.",
)
@publishing
def keeps_primary_key(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Adds a primary key, which BigQuery does not enforce, to staging between two publishes."""
    feed.publish(feed.land(1, rows(probe, 1)))
    key = {"primaryKey": {"columns": ["name", "day", "code"]}}
    probe.rest(f"datasets/{probe.name}/tables/{feed.feed.staging}", "PATCH", {"tableConstraints": key})
    feed.publish(feed.land(2, rows(probe, 2)))
    expect_rows(feed, rows(probe, 2))
    for table in (feed.feed.staging, feed.feed.target):
        found = probe.rest(f"datasets/{probe.name}/tables/{table}", "GET")
        expect(f"constraints of {table}", found.get("tableConstraints"), key)
    return "The second publish succeeded, and staging and target have the key."


@assumption(
    "publish-rolls-back",
    statement="Staging as it was checked for an earlier generation can be cloned over target",
    rule="publish/rollback/, FEED_rollback. If it does not hold: load the generation's files.",
)
@publishing
def rolls_back(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes two snapshots, shows the difference, and rolls back to the first."""
    first = feed.publish(feed.land(1, rows(probe, 1)))
    feed.publish(feed.land(2, rows(probe, 2)))
    feed.roll_back(first.generation)
    expect_rows(feed, rows(probe, 1))
    return "Target has the first snapshot's rows again."


@assumption(
    "publish-guards-its-parent",
    statement="The assertion in the swap's script fails if target's labels name another generation than the parent",
    rule="sql/publish/swap_target.sql: a late swap cannot replace a table that it was not built on.",
)
@publishing
def guards_parent(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Changes the generation in target's labels between the check and the swap of a second publish."""
    feed.publish(feed.land(1, rows(probe, 1)))
    spec, checked = feed.publish_to_check(feed.land(2, rows(probe, 2)))
    target = f"{probe.dataset}.{feed.feed.target}"
    probe.query(f"ALTER TABLE `{target}` SET OPTIONS (labels = [('dedup_clone_generation', '00000099')])")
    try:
        feed.swap(spec, checked)
    except BadRequest as error:
        expect_rows(feed, rows(probe, 1))
        return f"Refused: {str(error)[:120]}"
    raise DoesNotHold("The swap replaced a table of another generation.")


@assumption(
    "publish-job-ids-once",
    statement="BigQuery accepts no second job under the id of a publish's swap, even after the first has ended",
    rule="publish/attempt_jobs.py, publish/recovery.py: a retry attaches to its job, and recovery fences job ids.",
)
@publishing
def job_ids_once(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Repeats the swap under its own job id after it succeeded."""
    spec, checked = feed.publish_to_check(feed.land(1, rows(probe, 1)))
    feed.swap(spec, checked)
    before = probe.client.get_table(f"{probe.dataset}.{feed.feed.target}").created
    try:
        feed.swap(spec, checked)
    except Conflict:
        expect("creation time of target", probe.client.get_table(f"{probe.dataset}.{feed.feed.target}").created, before)
        feed.commit(spec)
        return "The second job was refused with 409, and target was not replaced again."
    raise DoesNotHold("A second job with the same id was accepted.")


@assumption(
    "publish-clones-the-checked-rows",
    statement="A clone of staging as of T has the rows as of T, even if staging has changed since",
    rule="publish/check.py: the swap clones staging as it was checked.",
)
@publishing
def clones_the_checked_rows(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Empties staging between the check and the swap."""
    spec, checked = feed.publish_to_check(feed.land(1, rows(probe, 1)))
    probe.query(f"TRUNCATE TABLE `{probe.dataset}.{feed.feed.staging}`")
    feed.swap(spec, checked)
    expect_rows(feed, rows(probe, 1))
    age = datetime.now(UTC) - datetime.fromisoformat(str(checked.checked_at))
    expect("T lies in the past", age > timedelta(0), True)
    return "Target has the rows of T."
