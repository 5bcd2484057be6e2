"""Whole publishes, by the product's own steps, SQL files, checks and clients. Each must leave the delivered rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, Conflict, Forbidden
from google.cloud.bigquery import TableReference

from bigquery_standin.client import Control
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Column, TableContract, UpdateIdMode
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.row_messages import sequence_number
from dedup_clone.warehouse.row_policies import READ_PAST
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import Places, row
from testkit.oracle import comparable
from testkit.server_clients import FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL
from testkit.table_contracts import PRODUCTS
from tests.conformance import every_type
from tests.conformance.every_type import (
    NULLABLE_TABLE,
    ROWS_FOR_EVERY_VALUE,
    TABLE,
    row_without_floats,
    with_enums,
    without_floats,
)
from tests.conformance.policies import add_policy, add_policy_tag, column_tags, may_read, named_policy_tag, row_policies
from tests.conformance.rules import rule
from tests.conformance.sandbox import Sandbox

SWAP = "sql/publish/swap_target.sql"
JOBS = "plugins/dedup_clone/publish/attempt_jobs.py"
POLICY_CHECKS = "plugins/dedup_clone/publish/early_checks.py"
EXPORT = "plugins/dedup_clone/publish/parent_generation.py"
OTHER_ENGINE = "Publish no columns of the type that differs, or set another `engine`."
AUTHORIZED_VIEW = "Declare no policies: let readers use an authorized view of target."
# Exports may write FLOAT64 values with 32 bits. The product exports no table with FLOAT64.
WITHOUT_FLOATS = replace(TABLE, columns=without_floats(TABLE.columns))
WIDENED = replace(
    PRODUCTS, columns=tuple(replace(c, type="NUMERIC") if c.name == "attr_value" else c for c in PRODUCTS.columns)
)
STALENESS_MINUTES = 1  # staging's option max_staleness
WAIT_S = 30.0  # between two looks at the watermark, the time until which streamed rows have been applied
WAITS = 40  # 20 minutes


class PublishedFeed(FeedAgainstOracle):
    """A new feed in the sandbox. In place of Spark, the dedup job runs in the process of the test."""

    def __init__(
        self, sandbox: Sandbox, table: TableContract = TABLE, engine: Engine = Engine.BIGQUERY, **settings: Any
    ) -> None:
        servers = sandbox.servers
        places = Places(
            servers.project, sandbox.name, servers.location, sandbox.landing_bucket.name, sandbox.bucket.name
        )
        feed = feed_with_table(table, engine).model_copy(update=settings)
        super().__init__((sandbox.storage, sandbox.client), feed, places)

    def commit(self, attempt: Any) -> Any:
        """Commit, and assert that no check after the swap has failed, as the DAG does."""
        record = super().commit(attempt)
        checks = self.storage.bucket(self.places.state).blob(
            f"{self.feed.feed}/attempts/{attempt.id}/checks_after.json"
        )
        results = json.loads(checks.download_as_text())["items"]
        assert [check for check in results if check["level"] == "fail"] == []
        return record

    def assert_rows(self, expected: list[dict[str, Any]]) -> None:
        assert self.table_rows() == comparable(self.oracle_table, expected)


def rows(sandbox: Sandbox, snapshot_id: int, *, keys: int = 4) -> list[dict[str, Any]]:
    """The snapshot's rows of two days, with `keys` keys a day. One row a day is NULL in every nullable column."""
    return every_type.rows((sandbox.days_ago(1), sandbox.today), snapshot_id, keys=keys)


def products(sandbox: Sandbox, snapshot_id: int, *, keys: int = 3) -> list[dict[str, Any]]:
    """The snapshot's rows of two days in the table PRODUCTS, `keys` a day. Product 1 changes with each snapshot."""
    days = (sandbox.days_ago(1), sandbox.today)
    return [row(snapshot_id, key, 20 + snapshot_id * (key == 1), day=day) for day in days for key in range(1, keys + 1)]


# -- every type


def publish_every_type(sandbox: Sandbox, table: TableContract) -> None:
    feed, landed = PublishedFeed(sandbox, table), rows(sandbox, 1, keys=ROWS_FOR_EVERY_VALUE)
    feed.publish(feed.land_files(1, with_enums(feed.files_of(landed))))
    feed.assert_rows(landed)


@rule(
    "all pages of docs/bigquery-rules.md",
    "plugins/dedup_clone/engines/staging_job.py sql/engines/bigquery/replace_required.sql",
    OTHER_ENGINE,
)
def test_every_type_is_published_with_required_columns(sandbox: Sandbox) -> None:
    """External tables, a load, INSERT and CLONE change no value of any type, no NULL and no microsecond."""
    publish_every_type(sandbox, TABLE)


@rule(
    "all pages of docs/bigquery-rules.md",
    "plugins/dedup_clone/engines/staging_job.py sql/engines/bigquery/deduplicate.sql",
    OTHER_ENGINE,
)
def test_every_type_is_published_by_a_query(sandbox: Sandbox) -> None:
    """A query with WRITE_TRUNCATE_DATA writes every type into a table of NULLABLE columns."""
    publish_every_type(sandbox, NULLABLE_TABLE)


@rule("REST resource jobs; Loading Parquet data", f"plugins/dedup_clone/publish/load.py {JOBS}", OTHER_ENGINE)
def test_every_type_is_loaded(sandbox: Sandbox) -> None:
    """A load of a list of files, with a schema and WRITE_TRUNCATE_DATA, changes no value of any type."""
    feed, landed = PublishedFeed(sandbox, engine=Engine.SPARK), rows(sandbox, 1, keys=ROWS_FOR_EVERY_VALUE)
    feed.publish(feed.land(1, landed))
    feed.assert_rows(landed)
    more = [{**row, "day": sandbox.days_ago(2), "version": 2} for row in landed if row["day"] == sandbox.today]
    feed.publish(feed.land(2, more))
    feed.assert_rows(landed + more)


@rule(
    "Export table data",
    f"{EXPORT} plugins/dedup_clone/operations/takeover.py",
    "Do not change a feed with columns of the type that differs from an engine in SQL to `engine: spark`.",
)
def test_every_type_is_exported(sandbox: Sandbox) -> None:
    """Extract jobs, whose files stand in for the parent's, change no value of any type but FLOAT64."""
    feed = PublishedFeed(sandbox, WITHOUT_FLOATS)
    landed = [row_without_floats(row) for row in rows(sandbox, 1, keys=ROWS_FOR_EVERY_VALUE)]
    feed.publish(feed.land(1, landed))
    more = [{**row, "day": sandbox.days_ago(2), "version": 2} for row in landed if row["day"] == sandbox.today]
    feed.publish(feed.land(2, more), engine=Engine.SPARK)
    feed.assert_rows(landed + more)


# -- one publish after another


@rule(
    "all pages of docs/bigquery-rules.md",
    f"{SWAP} plugins/dedup_clone/checks/table_checks.py plugins/dedup_clone/publish/check.py",
    "Publish nothing until it is mended: the second publish would fail.",
)
def test_a_publish_replaces_target(sandbox: Sandbox) -> None:
    """A later publish's swap finds the parent in target's labels and replaces target, and all checks pass."""
    feed = PublishedFeed(sandbox)
    feed.publish(feed.land(1, rows(sandbox, 1)))
    feed.publish(feed.land(2, rows(sandbox, 2, keys=3)))
    lacking = [row for row in rows(sandbox, 1) if row["name"].endswith("3")]
    feed.assert_rows(rows(sandbox, 2, keys=3) + lacking)
    feed.publish(feed.land(3, rows(sandbox, 3, keys=3)), engine=Engine.MERGE)
    feed.assert_rows(rows(sandbox, 3, keys=3) + lacking)


@rule(
    "Use primary and foreign keys; DDL",
    f"plugins/dedup_clone/publish/load.py {SWAP}",
    "Set `primary_key: false`, and drop the constraint from staging and target.",
)
def test_a_primary_key_is_kept(sandbox: Sandbox) -> None:
    """A table with a primary key is loaded, cloned and replaced like one without, and its clone has the key."""
    feed = PublishedFeed(sandbox)
    feed.publish(feed.land(1, rows(sandbox, 1)))
    key = {"primaryKey": {"columns": ["name", "day", "code"]}}
    sandbox.rest(f"/tables/{feed.feed.staging}", "PATCH", {"tableConstraints": key})
    feed.publish(feed.land(2, rows(sandbox, 2)))
    feed.assert_rows(rows(sandbox, 2))
    for table in (feed.feed.staging, feed.feed.target):
        assert sandbox.rest(f"/tables/{table}").get("tableConstraints") == key


@rule(
    "Time travel",
    "plugins/dedup_clone/operations/rollback.py plugins/dedup_clone/publish/check.py",
    "Replay the snapshot in place of FEED_rollback, which loads files.",
)
def test_a_rollback_clones_the_past(sandbox: Sandbox) -> None:
    """Staging as it was checked for an earlier generation can be cloned over target."""
    feed = PublishedFeed(sandbox)
    first = feed.publish(feed.land(1, rows(sandbox, 1)))
    feed.publish(feed.land(2, rows(sandbox, 2)))
    feed.roll_back(first.generation)
    feed.assert_rows(rows(sandbox, 1))


@rule("DDL", SWAP, "Let one Airflow environment only publish a feed, and change no labels of target by hand.")
def test_a_swap_guards_its_parent(sandbox: Sandbox) -> None:
    """The assertion in the swap's script fails if target's labels name another generation than the parent."""
    feed = PublishedFeed(sandbox)
    feed.publish(feed.land(1, rows(sandbox, 1)))
    attempt, checked = feed.publish_to_check(feed.land(2, rows(sandbox, 2)))
    target = sandbox.table(feed.feed.target)
    sandbox.query(f"ALTER TABLE `{target}` SET OPTIONS (labels = [('dedup_clone_generation', '00000099')])")
    with pytest.raises(BadRequest):
        feed.swap(attempt, checked)
    feed.assert_rows(rows(sandbox, 1))


@rule("Time travel", f"plugins/dedup_clone/publish/check.py {SWAP}", "Give nobody else write access to staging.")
def test_a_swap_clones_the_checked_rows(sandbox: Sandbox) -> None:
    """A clone of staging as of T has the rows as of T, even if staging has changed since."""
    feed = PublishedFeed(sandbox)
    attempt, checked = feed.publish_to_check(feed.land(1, rows(sandbox, 1)))
    sandbox.query(f"TRUNCATE TABLE `{sandbox.table(feed.feed.staging)}`")
    feed.swap(attempt, checked)
    feed.assert_rows(rows(sandbox, 1))
    assert datetime.fromisoformat(str(checked.checked_at)) < sandbox.now()


@contextmanager
def sent_jobs(sandbox: Sandbox) -> Iterator[list[dict[str, Any]]]:
    """The REST resources of all jobs that the `with` block sends and whose ids begin with `dedup_clone-`."""
    sent: list[dict[str, Any]] = []
    connection: Any = sandbox.client._connection
    send = connection.api_request

    def recording(**request: Any) -> Any:
        job = request.get("data") or {}
        if request["method"] == "POST" and job.get("jobReference", {}).get("jobId", "").startswith("dedup_clone-"):
            sent.append(job)
        return send(**request)

    connection.api_request = recording
    try:
        yield sent
    finally:
        connection.api_request = send


@rule(
    "Reliability guide",
    f"{JOBS} plugins/dedup_clone/publish/recovery.py",
    "Clear a failed run from its first task only, when no job of it is running.",
)
def test_no_job_of_a_publish_runs_twice(sandbox: Sandbox) -> None:
    """BigQuery accepts no second job under the id of any job of a publish, even after the first has ended."""
    feed = PublishedFeed(sandbox, PRODUCTS)
    by_dates = PublishedFeed(sandbox, PRODUCTS, Engine.SPARK, update_id_mode=UpdateIdMode.LAST_CHANGED)
    days = (sandbox.days_ago(1), sandbox.today)
    with sent_jobs(sandbox) as sent:
        for number, engine in enumerate((Engine.BIGQUERY, Engine.MERGE, Engine.SPARK), 1):
            feed.publish(feed.land(number, products(sandbox, number)), engine=engine)
        for number in (1, 2):
            changed = [row(number, 1, number * (day == sandbox.today), day=day) for day in days]
            by_dates.publish(by_dates.land(number, changed))
    steps = {job["jobReference"]["jobId"].rsplit("-", 2)[1] for job in sent}
    kinds = {step.split("_")[0] for step in steps}
    assert kinds == {"append", "evidence", "examine", "export", "incoming", "load", "swap"}
    assert f"load_{sandbox.today:%Y%m%d}" in steps, "one date was loaded by a job of its own"
    before, created = feed.table_rows(), sandbox.client.get_table(sandbox.table(feed.feed.target)).created
    for job in sent:
        with pytest.raises(Conflict):
            sandbox.project_rest("jobs", "POST", job)
    assert feed.table_rows() == before
    assert sandbox.client.get_table(sandbox.table(feed.feed.target)).created == created


# -- columns, engines and policies that change


@rule(
    "Modifying table schemas",
    "plugins/dedup_clone/publish/declared_form.py",
    "Add the column to staging by `ALTER TABLE … ADD COLUMN` before the first delivery that has it.",
)
def test_a_publish_adds_a_column(sandbox: Sandbox) -> None:
    """A column that tables.patch adds to staging is filled by the next publish, and its clone has it."""
    feed = PublishedFeed(sandbox)
    feed.publish(feed.land(1, rows(sandbox, 1)))
    feed.declare(replace(TABLE, columns=(*TABLE.columns, Column("size", "INT64"))))
    landed = [{**row, "size": number} for number, row in enumerate(rows(sandbox, 2))]
    feed.publish(feed.land(2, landed))
    feed.assert_rows(landed)


@rule(
    "DDL; Modifying table schemas",
    "plugins/dedup_clone/publish/declared_form.py sql/ddl/widen_column.sql",
    "Change the type by dedup_clone_rebuild.",
)
def test_a_publish_widens_a_column(sandbox: Sandbox) -> None:
    """ALTER COLUMN … SET DATA TYPE widens a column of staging, and staging can be loaded and cloned as before."""
    feed = PublishedFeed(sandbox, PRODUCTS, Engine.SPARK)
    feed.publish(feed.land(1, products(sandbox, 1)))
    files = feed.files_of(products(sandbox, 2))
    feed.declare(WIDENED)
    feed.publish(feed.land_files(2, files))
    feed.assert_rows([{**row, "attr_value": Decimal(row["attr_value"])} for row in products(sandbox, 2)])
    assert sandbox.fields(feed.feed.target)["attr_value"]["type"] == "NUMERIC"


@rule(
    "Export table data",
    f"{EXPORT} plugins/dedup_clone/publish/parent_generation.py",
    "Keep the engine of the first publish in `engine` of the feed file.",
)
def test_a_feed_changes_its_engine(sandbox: Sandbox) -> None:
    """Files that extract jobs export from staging can stand in for the parent's files in the next publish."""
    feed = PublishedFeed(sandbox, PRODUCTS, Engine.SPARK)
    for number, engine in enumerate((Engine.BIGQUERY, Engine.SPARK, Engine.MERGE), 1):
        feed.publish(feed.land(number, products(sandbox, number, keys=4 - number)), engine=engine)
    stayed = [r for n in (1, 2) for r in products(sandbox, n, keys=4 - n) if r["product_id"] == 4 - n]
    feed.assert_rows(products(sandbox, 3, keys=1) + stayed)


def declare_policies(feed: PublishedFeed, **policies: Any) -> None:
    table = feed.feed.table.model_copy(update={"policies": PolicySettings(**policies)})
    feed.feed = feed.feed.model_copy(update={"table": table})


@rule(
    "Using row-level security with other BigQuery features; Time travel",
    f"{POLICY_CHECKS} plugins/dedup_clone/publish/check.py plugins/dedup_clone/warehouse/metadata.py",
    AUTHORIZED_VIEW,
)
def test_a_table_with_row_policies_is_published(sandbox: Sandbox) -> None:
    """Who may read its past publishes a table with row access policies; a check refuses it for all others."""
    feed, landed = PublishedFeed(sandbox, PRODUCTS, Engine.SPARK), products(sandbox, 2)
    feed.publish(feed.land(1, products(sandbox, 1)))
    staging = sandbox.table(feed.feed.staging)
    add_policy(sandbox, staging, "no_rows", "store_id < 0")
    add_policy(sandbox, staging, "all_rows", "TRUE")
    declare_policies(feed, row_access=("all_rows", "no_rows"))
    answer = sandbox.client.test_iam_permissions(TableReference.from_string(staging), [READ_PAST])
    delivery = feed.land(2, landed)
    if READ_PAST not in answer.get("permissions", []):
        sandbox.notes.append("This account may not read the past.")
        with pytest.raises(CheckFailed, match="staging_access"):
            feed.publish(delivery)
        return
    try:
        feed.publish(delivery)
    except Forbidden as error:
        pytest.fail(f"refused, although this account has the permission: {error}")
    feed.assert_rows(landed)
    assert sorted(row_policies(sandbox, sandbox.table(feed.feed.target))) == ["all_rows", "no_rows"]


@rule(
    "Impact on writes with column-level access control",
    f"{POLICY_CHECKS} {SWAP} docs/deploy.md",
    AUTHORIZED_VIEW,
)
def test_a_table_with_a_policy_tag_is_published(sandbox: Sandbox) -> None:
    """Who may read the column publishes a table with a policy tag; the swap of all others is refused."""
    tag, feed, landed = named_policy_tag(sandbox), PublishedFeed(sandbox, PRODUCTS, Engine.SPARK), products(sandbox, 2)
    feed.publish(feed.land(1, products(sandbox, 1)))
    add_policy_tag(sandbox, feed.feed.staging, "attr_value", tag)
    declare_policies(feed, column_tags={"attr_value": tag})
    delivery = feed.land(2, landed)
    if not may_read(sandbox, sandbox.table(feed.feed.staging), "attr_value"):
        sandbox.notes.append("This account may not read the column.")
        attempt, checked = feed.publish_to_check(delivery)
        with pytest.raises(Forbidden):
            feed.swap(attempt, checked)
        assert feed.live() == "1"
        return
    feed.publish(delivery)
    feed.assert_rows(landed)
    assert column_tags(sandbox, sandbox.table(feed.feed.target)) == {"attr_value": [tag]}


@pytest.mark.parametrize(
    "published", [test_a_table_with_row_policies_is_published, test_a_table_with_a_policy_tag_is_published]
)
def test_who_has_all_rights_publishes_tables_with_policies(
    sandbox: Sandbox, control: Control, published: Callable[[Sandbox], None]
) -> None:
    control.grant(OVERRIDE_TIME_TRAVEL)
    control.grant(FINE_GRAINED_READ)
    published(sandbox)
    assert sandbox.notes == [], "the account has all rights"


@rule(
    "Stream table updates with change data capture; TABLES view",
    "plugins/dedup_clone/warehouse/bigquery.py sql/engines/cdc/apply_watermark.sql",
    "Set `engine: spark` instead of `cdc`.",
)
def test_streamed_changes_are_cloned(sandbox: Sandbox) -> None:
    """Streamed UPSERTs are in a clone once upsert_stream_apply_watermark has passed their acknowledgement."""
    feed = PublishedFeed(sandbox)
    feed.publish(feed.land(1, rows(sandbox, 1, keys=2)))
    warehouse, staging = feed.services.warehouse, feed.feed.staging
    warehouse.alterations.prepare_for_changes(staging, TABLE.keys, STALENESS_MINUTES)
    changed = [row for row in rows(sandbox, 2, keys=3) if row["code"] != 0]  # row 0 of each day is not streamed
    appender = warehouse.open_stream(staging, TABLE.columns, lambda: None)
    for change in changed:
        appender.append(change, sequence_number(2, 2, 1))
    appender.finish()
    acknowledged, applied = sandbox.now(), None
    for _ in range(WAITS):
        sandbox.servers.sleep(WAIT_S)
        applied = warehouse.watermark(feed.services.names, staging).applied_until
        if applied is not None and applied >= acknowledged:
            break
    assert applied is not None
    assert applied >= acknowledged
    target = sandbox.table(feed.feed.target)
    clone = f"CREATE OR REPLACE TABLE `{target}` CLONE `{sandbox.table(staging)}` FOR SYSTEM_TIME AS OF @at"
    sandbox.query(clone, {"at": sandbox.now()})
    feed.assert_rows(rows(sandbox, 1, keys=1) + changed)
