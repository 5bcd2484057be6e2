"""Assumptions about publishes of tables whose columns, policies or engine change, and about streamed changes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import LoadJobConfig, ParquetOptions, SourceFormat, TableReference

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Column
from dedup_clone.publish.planning.partition_export import export_partitions
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.policies import READ_PAST
from dedup_clone.warehouse.row_messages import sequence_number
from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.clones import swap
from deploy.probe.every_type import ROWS_FOR_EVERY_VALUE, TABLE, row_without_floats, without_floats
from deploy.probe.policies import add_policy, add_policy_tag, column_tags, may_read, named_policy_tag
from deploy.probe.probe_dataset import ProbeDataset
from deploy.probe.publishes import PublishedFeed, expect_rows, publishing, rows
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS

assumption = Register()
# In place of Spark, these publishes run the fake dedup job of the tests (testkit). They publish the table PRODUCTS.
by_files = partial(publishing, table=PRODUCTS, engine=Engine.SPARK)
# Exports may write FLOAT64 values with 32 bits. This project exports no table with FLOAT64.
WITHOUT_FLOATS = replace(TABLE, columns=without_floats(TABLE.columns))
# PRODUCTS with a wider type of one column.
WIDENED = replace(
    PRODUCTS, columns=tuple(replace(c, type="NUMERIC") if c.name == "attr_value" else c for c in PRODUCTS.columns)
)
STALENESS_MINUTES = 1  # staging's option max_staleness
WAIT_S = 30.0  # between two looks at the watermark, the time until which streamed rows have been applied
WAITS = 40  # 20 minutes


def products(probe: ProbeDataset, snapshot_id: int, *, keys: int = 3) -> list[dict[str, Any]]:
    """The snapshot's rows of two days in the table PRODUCTS, `keys` a day. Product 1 changes with each snapshot."""
    days = (probe.days_ago(1), probe.today)
    return [row(snapshot_id, key, 20 + snapshot_id * (key == 1), day=day) for day in days for key in range(1, keys + 1)]


@assumption(
    "publish-adds-a-column",
    statement="A column that tables.patch adds to staging is filled by the next publish, and its clone has it",
    rule="A new column in the feed file needs nothing but the next publish.",
    code=("plugins/dedup_clone/publish/planning/declared_changes.py",),
    instead="Add the column to staging by `ALTER TABLE … ADD COLUMN` before the first delivery that has it.",
)
@publishing
def adds_a_column(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot with engine bigquery, and a second one whose files have one column more."""
    feed.publish(feed.land(1, rows(probe, 1)))
    feed.declare(replace(TABLE, columns=(*TABLE.columns, Column("size", "INT64"))))
    landed = [{**row, "size": number} for number, row in enumerate(rows(probe, 2))]
    feed.publish(feed.land(2, landed))
    expect_rows(feed, landed)
    return f"Target has [{len(landed)}] rows with values in the new column."


@assumption(
    "publish-widens-a-column",
    statement="ALTER COLUMN … SET DATA TYPE widens a column of staging, and staging can be loaded and cloned as before",
    rule="A wider type in the feed file needs nothing but the next publish.",
    code=("plugins/dedup_clone/publish/planning/declared_changes.py", "sql/ddl/widen_column.sql"),
    instead="Change the type by FEED_rebuild.",
)
@by_files
def widens_a_column(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot, widens a column of the feed, and publishes files that have its former type."""
    feed.publish(feed.land(1, products(probe, 1)))
    files = feed.files_of(products(probe, 2))
    feed.declare(WIDENED)
    feed.publish(feed.land_files(2, files))
    expect_rows(feed, [{**row, "attr_value": Decimal(row["attr_value"])} for row in products(probe, 2)])
    fields = {field.name: field.field_type for field in probe.client.get_table(probe.table(feed.feed.target)).schema}
    expect("type of the column", fields["attr_value"], "NUMERIC")
    return "Target has the rows, and the column is NUMERIC."


@assumption(
    "publish-changes-its-engine",
    statement="Files that extract jobs export from staging can stand in for the parent's files in the next publish",
    rule="A feed may change from an engine in SQL to engine spark and back.",
    code=(
        "plugins/dedup_clone/publish/planning/partition_export.py",
        "plugins/dedup_clone/publish/planning/parent_generation.py",
    ),
    instead="Keep the engine of the first publish in `engine` of the feed file.",
)
@by_files
def changes_its_engine(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes with engine bigquery, then with spark, for which staging is exported, then with merge."""
    for number, engine in enumerate((Engine.BIGQUERY, Engine.SPARK, Engine.MERGE), 1):
        feed.publish(feed.land(number, products(probe, number, keys=4 - number)), engine=engine)
    stayed = [r for n in (1, 2) for r in products(probe, n, keys=4 - n) if r["product_id"] == 4 - n]
    expect_rows(feed, products(probe, 3, keys=1) + stayed)
    return "Target has all rows of the three snapshots."


@assumption(
    "export-of-every-type",
    statement="An extract job changes no value of any type but FLOAT64, no NULL, no array and no microsecond",
    rule="Spark continues from exported files after an engine in SQL.",
    code=(
        "plugins/dedup_clone/publish/planning/partition_export.py",
        "plugins/dedup_clone/publish/bootstrap/existing_export.py",
    ),
    instead="Do not change a feed with columns of the type that differs from an engine in SQL to `engine: spark`.",
)
@partial(publishing, table=WITHOUT_FLOATS)
def export_of_every_type(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Exports the partitions of a published table as a publish does, and loads the files into another table."""
    landed = [row_without_floats(row) for row in rows(probe, 1, keys=ROWS_FOR_EVERY_VALUE)]
    record = feed.publish(feed.land(1, landed))
    project, dataset = probe.dataset.split(".")
    source = {"projectId": project, "datasetId": dataset, "tableId": feed.feed.target}
    days = (probe.days_ago(1), probe.today)
    files = export_partitions(feed.services, record.attempt, source, days, partition_column="day")
    expect("rows of the files", sum(file.rows for file in files), len(landed))
    back = f"{feed.feed.target}_back"
    schema = probe.client.get_table(probe.table(feed.feed.target)).schema
    lists: Any = ParquetOptions()  # type: ignore[no-untyped-call]
    lists.enable_list_inference = True
    options = LoadJobConfig(source_format=SourceFormat.PARQUET, schema=schema, parquet_options=lists)
    uris = [f"gs://{probe.bucket.name}/{file.info.name}" for file in files]
    probe.client.load_table_from_uri(uris, probe.table(back), job_config=options, location=probe.location).result()
    expect("rows of the other table", feed.table_rows(back), feed.table_rows())
    return f"[{len(files)}] files with [{len(landed)}] rows of {len(WITHOUT_FLOATS.columns)} columns."


@assumption(
    "publish-with-row-policies",
    statement="A table with a restrictive policy and one with the filter TRUE is published by who may read its past",
    rule="The check staging_access refuses the publish of every other account before the swap.",
    code=(
        "plugins/dedup_clone/publish/check.py",
        "plugins/dedup_clone/publish/policy_checks.py",
        "plugins/dedup_clone/warehouse/policies.py",
    ),
    instead="Declare no row access policies: let readers use an authorized view of target.",
)
@by_files
def with_row_policies(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot, adds the two policies to staging and to the feed, and publishes a second snapshot."""
    feed.publish(feed.land(1, products(probe, 1)))
    staging, policies = probe.table(feed.feed.staging), ("all_rows", "no_rows")
    add_policy(probe, staging, "no_rows", "store_id < 0")
    add_policy(probe, staging, "all_rows", "TRUE")
    declared = feed.feed.table.model_copy(update={"policies": PolicySettings(row_access=policies)})
    feed.feed = feed.feed.model_copy(update={"table": declared})
    answer = probe.client.test_iam_permissions(TableReference.from_string(staging), [READ_PAST])
    permitted = READ_PAST in answer.get("permissions", [])
    name = feed.land(2, products(probe, 2))
    try:
        feed.publish(name)
    except CheckFailed as error:
        expect("checks that failed for an account that may read the past", str(error) if permitted else "", "")
        expect("staging_access is the check that failed", "staging_access" in str(error), True)
        return "This account may not read the past, and the check before the swap said so."
    expect("right to read the past, although the publish succeeded", permitted, True)
    expect_rows(feed, products(probe, 2))
    expect("policies of target", sorted(probe.row_policies(probe.table(feed.feed.target))), list(policies))
    return "This account may read the past: target has all rows and both policies."


@assumption(
    "publish-with-a-policy-tag",
    statement="A table with a policy tag is published by who may read the column, and its target has the tag",
    rule="BigQuery refuses the swap of every other account, before target changes.",
    code=("plugins/dedup_clone/publish/policy_checks.py", "sql/publish/swap_target.sql", "docs/security.md"),
    instead="Declare no `column_tags`: let readers use an authorized view without the column.",
)
@by_files
def with_a_policy_tag(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot, puts a tag on a column of staging, declares it, and publishes a second snapshot."""
    tag, target = named_policy_tag(probe), probe.table(feed.feed.target)
    feed.publish(feed.land(1, products(probe, 1)))
    add_policy_tag(probe, feed.feed.staging, "attr_value", tag)
    declared = feed.feed.table.model_copy(update={"policies": PolicySettings(column_tags={"attr_value": tag})})
    feed.feed = feed.feed.model_copy(update={"table": declared})
    permitted = may_read(probe, probe.table(feed.feed.staging), "attr_value")
    name = feed.land(2, products(probe, 2))
    try:
        feed.publish(name)
    except Forbidden:
        expect("right to read the column, although the swap was refused", permitted, False)
        expect("generation of target", feed.live(), "1")
        return "This account may not read the column, and BigQuery refused the swap: target has the first snapshot."
    expect("right to read the column, although the publish succeeded", permitted, True)
    expect_rows(feed, products(probe, 2))
    expect("tags of target", column_tags(probe, target), {"attr_value": [tag]})
    return "This account may read the column: target has all rows and the tag."


@assumption(
    "streamed-changes-are-cloned",
    statement="Streamed UPSERTs are in a clone once upsert_stream_apply_watermark has passed their acknowledgement",
    rule="Engine cdc swaps when BigQuery has applied what it streamed.",
    code=(
        "plugins/dedup_clone/engines/stream_changes.py",
        "plugins/dedup_clone/warehouse/change_data_capture.py",
        "sql/engines/cdc/apply_watermark.sql",
    ),
    instead="Set `engine: spark` instead of `cdc`.",
)
@publishing
def streamed_changes_are_cloned(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Streams changed and new rows into staging as engine cdc does, waits for the watermark, and clones staging."""
    feed.publish(feed.land(1, rows(probe, 1, keys=2)))
    cdc, staging = feed.services.warehouse.cdc, feed.feed.staging
    cdc.prepare(staging, TABLE.keys, STALENESS_MINUTES)
    changed = [row for row in rows(probe, 2, keys=3) if row["code"] != 0]  # row 0 of each day is not streamed
    appender = cdc.open_stream(staging, TABLE.columns)
    try:
        for change in changed:
            appender.append(change, sequence_number(2, 2, 1))
        appender.finish()
    finally:
        appender.close()
    acknowledged = probe.now()
    for _ in range(WAITS):
        probe.sleep(WAIT_S)
        seen = cdc.watermark(feed.services.names, staging)
        if seen.applied_until is not None and seen.applied_until >= acknowledged:
            break
    else:
        raise DoesNotHold(f"Applied until [{seen.applied_until}] at [{seen.observed_at}], sent at [{acknowledged}].")
    swap(probe, probe.table(feed.feed.target), probe.table(staging), probe.now())
    expect_rows(feed, rows(probe, 1, keys=1) + changed)
    return f"[{len(changed)}] rows, applied until [{seen.applied_until}]."
