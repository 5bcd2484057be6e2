"""Assumptions about publishes of tables whose columns, policies or engine change, and about streamed changes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

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
from deploy.probe.policies import add_policy
from deploy.probe.probe_dataset import ProbeDataset
from deploy.probe.publishes import TABLE, PublishedFeed, expect_rows, publishing, rows
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS

assumption = Register()
# In place of Spark, these publishes run the tests' own dedup job, which knows this table only.
by_files = partial(publishing, table=PRODUCTS, engine=Engine.SPARK)
# Exports shorten FLOAT64, which is why this project refuses to continue from such files.
EXACT = replace(
    TABLE,
    columns=tuple(
        replace(column, fields=tuple(field for field in column.fields if field.type != "FLOAT64"))
        for column in TABLE.columns
        if column.type != "FLOAT64"
    ),
)
WIDE = replace(
    PRODUCTS, columns=tuple(replace(c, type="NUMERIC") if c.name == "attr_value" else c for c in PRODUCTS.columns)
)
STALENESS_MINUTES = 1
WAIT_S = 30.0
WAITS = 40  # 20 minutes


def products(probe: ProbeDataset, snapshot_id: int, *, keys: int = 3) -> list[dict[str, Any]]:
    """The snapshot's rows of two days in the table PRODUCTS. Product 1 changes with each snapshot."""
    days = (probe.days_ago(1), probe.today)
    return [row(snapshot_id, key, 20 + snapshot_id * (key == 1), day=day) for day in days for key in range(1, keys + 1)]


def exact(landed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without FLOAT64."""
    return [
        {k: v for k, v in row.items() if k != "amount"} | {"info": row["info"] and {"label": row["info"]["label"]}}
        for row in landed
    ]


@assumption(
    "publish-adds-a-column",
    statement="A column that tables.patch adds to staging is filled by the next publish, and its clone has it",
    rule="publish/planning/declared_changes.py. If it does not hold: add the column to staging by hand.",
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
    statement="ALTER COLUMN … SET DATA TYPE widens a column of staging, which is then loaded and cloned as ever",
    rule="publish/planning/declared_changes.py. If it does not hold: make staging anew.",
)
@by_files
def widens_a_column(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot, widens a column of the feed, and publishes files that have its former type."""
    feed.publish(feed.land(1, products(probe, 1)))
    files = feed.files_of(products(probe, 2))
    feed.declare(WIDE)
    feed.publish(feed.land_files(2, files))
    expect_rows(feed, [{**row, "attr_value": Decimal(row["attr_value"])} for row in products(probe, 2)])
    fields = {field.name: field.field_type for field in probe.client.get_table(probe.table(feed.feed.target)).schema}
    expect("type of the column", fields["attr_value"], "NUMERIC")
    return "Target has the rows, and the column is NUMERIC."


@assumption(
    "publish-changes-its-engine",
    statement="Files that extract jobs exported from staging are read as those of a generation, and publishes go on",
    rule="publish/planning/partition_export.py. If it does not hold: stay with one engine.",
)
@by_files
def changes_its_engine(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes with engine bigquery, then from files, which exports staging, then with engine merge."""
    for number, engine in enumerate((Engine.BIGQUERY, Engine.SPARK, Engine.MERGE), 1):
        feed.publish(feed.land(number, products(probe, number, keys=4 - number)), engine=engine)
    stayed = [r for n in (1, 2) for r in products(probe, n, keys=4 - n) if r["product_id"] == 4 - n]
    expect_rows(feed, products(probe, 3, keys=1) + stayed)
    return "Target has all rows of the three snapshots."


@assumption(
    "export-of-every-type",
    statement="An extract job changes no value of any type but FLOAT64, no NULL, no array and no microsecond",
    rule="publish/planning/partition_export.py: Spark continues from exported files after an engine in SQL.",
)
@partial(publishing, table=EXACT)
def export_of_every_type(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Exports the partitions of a published table as a publish does, and loads the files into another table."""
    landed = exact(rows(probe, 1))
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
    return f"[{len(files)}] files with [{len(landed)}] rows of {len(EXACT.columns)} columns."


@assumption(
    "publish-with-row-policies",
    statement="A table with a restrictive policy and one with the filter TRUE is published by who may read its past",
    rule="The check staging_access refuses the publish of every other account before the swap (docs/security.md).",
)
@by_files
def with_row_policies(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes a snapshot, adds both policies to staging, declares them, and publishes a second snapshot."""
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
    expect("published by an account that may read the past", permitted, True)
    expect_rows(feed, products(probe, 2))
    expect("policies of target", sorted(probe.row_policies(probe.table(feed.feed.target))), list(policies))
    return "This account may read the past: target has all rows and both policies."


@assumption(
    "streamed-changes-are-cloned",
    statement="Streamed UPSERTs are in a clone once upsert_stream_apply_watermark has passed their acknowledgement",
    rule="engines/stream_changes.py. If it does not hold: use engine spark instead of cdc.",
)
@publishing
def streamed_changes_are_cloned(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Streams changed and new rows into staging as engine cdc does, waits for the watermark, and clones staging."""
    feed.publish(feed.land(1, rows(probe, 1, keys=2)))
    cdc, staging = feed.services.warehouse.cdc, feed.feed.staging
    cdc.prepare(staging, TABLE.keys, STALENESS_MINUTES)
    changed = [row for row in rows(probe, 2, keys=3) if row["code"] != 0]
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
    expect_rows(feed, [row for row in rows(probe, 1, keys=1)] + changed)
    return f"[{len(changed)}] rows, applied until [{seen.applied_until}]."
