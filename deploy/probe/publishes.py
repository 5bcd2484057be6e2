"""Assumptions about whole publishes, tested with this project's own steps, SQL files, checks and clients."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from typing import Any

from google.api_core.exceptions import BadRequest, RetryError, ServerError, TooManyRequests
from google.auth.exceptions import GoogleAuthError

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import TableContract
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.ledger import LedgerRecord
from deploy.probe import every_type
from deploy.probe.assumption import AssumptionTest, CannotTry, DoesNotHold, Register, expect
from deploy.probe.every_type import NULLABLE_TABLE, ROWS_FOR_EVERY_VALUE, TABLE, with_enums
from deploy.probe.probe_dataset import BudgetSpent, ProbeDataset
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import Places
from testkit.oracle import comparable

assumption = Register()
# Errors that say nothing about the assumption: of the probe, of the login, and of a service that is not available.
NO_VERDICT = (BudgetSpent, CannotTry, GoogleAuthError, OSError, RetryError, ServerError, TooManyRequests)


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
    """Decorate a test of whole publishes: it gets a new feed of `table`, which publishes with `engine`.

    A step that fails raises DoesNotHold, except with the errors in NO_VERDICT. The bytes that all jobs of the test bill
    are added to `probe.billed_bytes`.
    """

    @wraps(test)
    def with_feed(probe: ProbeDataset) -> str:
        project, dataset = probe.dataset.split(".")
        places = Places(project, dataset, probe.location, probe.landing_bucket.name, probe.bucket.name)
        feed = feed_with_table(table, engine)
        started, billed_before = datetime.now(UTC), probe.billed_bytes
        try:
            return test(probe, PublishedFeed((probe.storage, probe.client), feed, places))
        except (DoesNotHold, *NO_VERDICT):
            raise
        except Exception as error:  # the steps must succeed: after any other error the assumption does not hold
            raise DoesNotHold(f"A step of the publish failed: {type(error).__name__}: {error}") from error
        finally:
            jobs = probe.client.list_jobs(min_creation_time=started, state_filter="done")
            # This sum replaces the count of `probe.query`, because the list has its queries, too.
            probe.billed_bytes = billed_before + sum(getattr(job, "total_bytes_billed", 0) or 0 for job in jobs)

    return with_feed


def rows(probe: ProbeDataset, snapshot_id: int, *, keys: int = 4) -> list[dict[str, Any]]:
    """The snapshot's rows of two days, with `keys` keys a day. One row a day is NULL in every nullable column."""
    return every_type.rows((probe.days_ago(1), probe.today), snapshot_id, keys=keys)


def expect_rows(feed: PublishedFeed, expected: list[dict[str, Any]]) -> None:
    expect("rows of target", feed.table_rows(), comparable(feed.oracle_table, expected))


@assumption(
    "publish-of-every-type",
    statement="External tables, a load, INSERT and CLONE change no value of any type, no NULL and no microsecond",
    rule="Target has the delivered values, with engine bigquery and columns that are REQUIRED.",
    code=(
        "plugins/dedup_clone/engines/staging_job.py",
        "plugins/dedup_clone/engines/incoming_load.py",
        "sql/engines/bigquery/replace_required.sql",
    ),
    instead="Publish no columns of the type that differs, or set `engine: spark`.",
)
@publishing
def every_type_with_required(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot of a table with a REQUIRED column, with all checks before and after the swap."""
    return publish_every_type(probe, feed)


@assumption(
    "publish-of-every-type-by-query",
    statement="A query with WRITE_TRUNCATE_DATA writes every type into a table of NULLABLE columns",
    rule="Target has the delivered values, with engine bigquery and no REQUIRED column.",
    code=("plugins/dedup_clone/engines/staging_job.py", "sql/engines/bigquery/deduplicate.sql"),
    instead="Publish no columns of the type that differs, or set `engine: spark`.",
)
@partial(publishing, table=NULLABLE_TABLE)
def every_type_by_query(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot of a table without REQUIRED columns, with all checks before and after the swap."""
    return publish_every_type(probe, feed)


def publish_every_type(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes files that have every value of each type and a column of ENUM, and compares target with the rows."""
    landed = rows(probe, 1, keys=ROWS_FOR_EVERY_VALUE)
    record = feed.publish(feed.land_files(1, with_enums(feed.files_of(landed))))
    expect_rows(feed, landed)
    return f"{len(landed)} rows of {len(TABLE.columns)} columns, published as generation {record.generation}."


@assumption(
    "load-of-every-type",
    statement="A load of a manifest of URIs, with a schema and WRITE_TRUNCATE_DATA, changes no value of any type",
    rule="Target has the rows of the files that the default engine, spark, writes.",
    code=("plugins/dedup_clone/publish/load.py", "plugins/dedup_clone/publish/attempt_jobs.py"),
    instead="Publish no columns of the type that differs, or set `engine: bigquery`.",
)
@partial(publishing, engine=Engine.SPARK)
def load_of_every_type(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes two snapshots from files as the Spark job writes them. The second has only rows of another date."""
    landed = rows(probe, 1, keys=ROWS_FOR_EVERY_VALUE)
    feed.publish(feed.land(1, landed))
    expect_rows(feed, landed)
    more = [{**row, "day": probe.days_ago(2), "version": 2} for row in landed if row["day"] == probe.today]
    record = feed.publish(feed.land(2, more))
    expect_rows(feed, landed + more)
    return f"{len(landed + more)} rows of {len(TABLE.columns)} columns, published as generation {record.generation}."


@assumption(
    "publish-replaces-target",
    statement="A later publish's swap finds the parent in target's labels and replaces target, and all checks pass",
    rule="Each publish builds on the one before.",
    code=(
        "sql/publish/swap_target.sql",
        "plugins/dedup_clone/checks/table_checks.py",
        "plugins/dedup_clone/publish/check.py",
    ),
    instead="Publish nothing until it is mended: the second publish would fail.",
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
    rule="Target may have a primary key.",
    code=("plugins/dedup_clone/publish/load.py", "sql/publish/swap_target.sql"),
    instead="Set `primary_key: false`, and drop the constraint from staging and target.",
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
    rule="A rollback within time travel loads nothing.",
    code=("plugins/dedup_clone/publish/rollback/resolve_rollback.py", "plugins/dedup_clone/publish/check.py"),
    instead="Replay the snapshot in place of FEED_rollback, which loads files.",
)
@publishing
def rolls_back(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes two snapshots, previews a rollback to the first, and carries it out."""
    first = feed.publish(feed.land(1, rows(probe, 1)))
    feed.publish(feed.land(2, rows(probe, 2)))
    feed.roll_back(first.generation)
    expect_rows(feed, rows(probe, 1))
    return "Target has the first snapshot's rows again."


@assumption(
    "publish-guards-its-parent",
    statement="The assertion in the swap's script fails if target's labels name another generation than the parent",
    rule="A late swap cannot replace a table that it was not built on.",
    code=("sql/publish/swap_target.sql",),
    instead="Let one Airflow environment only publish a feed, and change no labels of target by hand.",
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
    "publish-clones-the-checked-rows",
    statement="A clone of staging as of T has the rows as of T, even if staging has changed since",
    rule="The swap clones staging as it was checked.",
    code=("plugins/dedup_clone/publish/check.py", "sql/publish/swap_target.sql"),
    instead="Give nobody else write access to staging.",
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
