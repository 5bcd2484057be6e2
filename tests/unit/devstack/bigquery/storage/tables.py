"""Makes small tables with the columns day and number, for tests of the stand-in's storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.clock import Clock
from devstack.bigquery.jobs.ddl_statements import clone_change
from devstack.bigquery.jobs.destination_table import write_change
from devstack.bigquery.sql.ddl_options import TableOptions
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import Dataset, DatasetId, Segment, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.partition_rows import split_rows
from devstack.bigquery.storage.quotas import QuotaLimits

SCHEMA = (TableField("day", "DATE"), TableField("number", "INT64"))
SETTINGS = TableSettings(SCHEMA, partition_column="day")
WAREHOUSE = DatasetId("local-dev", "warehouse")
UNLIMITED = QuotaLimits(*[10**9] * len(fields(QuotaLimits)))


def table_id(name: str) -> TableId:
    return TableId("local-dev", "warehouse", name)


def open_catalog(folder: Path, limits: QuotaLimits = UNLIMITED) -> Catalog:
    catalog = Catalog(folder, Clock(folder / "clock.json"), limits)
    if catalog.datasets.find(WAREHOUSE) is None:
        catalog.datasets.create(Dataset(WAREHOUSE, "US", 0, 0))
    return catalog


def rows_of(days: Sequence[date | None], number: int, rows_per_day: int = 3) -> pa.Table:
    values = [(day, number) for day in days for _ in range(rows_per_day)]
    return pa.Table.from_pylist([{"day": day, "number": n} for day, n in values], schema=arrow_schema(SCHEMA))


def put(
    catalog: Catalog,
    name: str,
    rows: pa.Table,
    settings: TableSettings = SETTINGS,
    write: str = "WRITE_TRUNCATE_DATA",
    kind: str = "load",
) -> TableVersion:
    with catalog.segments.batch() as batch:
        segments: dict[str, list[Segment]] = {}
        for key, part in split_rows(rows, settings.partition_column):
            segments.setdefault(key, []).append(batch.write(part))
        return catalog.commit(
            table_id(name),
            lambda now, commit_us: write_change(kind, settings, now, segments, write, None, commit_us),
        )


def clone(catalog: Catalog, target: str, source: str, options: TableOptions | None = None) -> TableVersion:
    with catalog.pinned(table_id(source)) as version:
        return catalog.commit(
            table_id(target),
            lambda now, commit_us: clone_change(
                catalog,
                table_id(target),
                now,
                table_id(source),
                version,
                options or TableOptions(),
                commit_us,
                commit_us,
            ),
        )


def numbers(catalog: Catalog, version: TableVersion) -> list[int]:
    """The values of the column `number` in a version of a table."""
    return [
        number
        for segment in version.segments()
        for number in pq.read_table(catalog.segments.path(segment)).column("number").to_pylist()
    ]
