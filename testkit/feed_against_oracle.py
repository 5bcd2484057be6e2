"""Publishes a feed with any columns on the stand-in, with any engine, and compares target with the oracle's table."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.manifest import DateEntry, Manifest
from dedup_clone.contract.table import Column, TableContract, UpdateIdMode
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.settings.feed import Feed, LandingSettings
from dedup_clone.settings.table_settings import ColumnSettings, TableSettings
from dedup_spark.column_types import arrow_schema
from testkit.dedup_job import Row
from testkit.feed_on_stand_in import LOCAL, FeedOnStandIn, Places
from testkit.generated_tables import by_day
from testkit.manifest_comparison import assert_manifest
from testkit.oracle import OracleState, comparable
from testkit.table_contracts import oracle_table

_feed_numbers = itertools.count(1)
NO_LIMITS = CheckSettings(
    max_missing_dates=1000,
    max_new_share=1.0,
    max_survivor_share=1.0,
    max_deleted_share=1.0,
    max_changed_share=1.0,
    max_times_usual=None,
)


def feed_with_table(
    table: TableContract, engine: Engine = Engine.SPARK, form: SqlForm = SqlForm.QUALIFY, **landing: Any
) -> Feed:
    """A feed with a new name and this table, whose checks accept all changes.

    `form`: of engine `bigquery`. `landing`: more settings of the feed file's section `landing`.
    """
    name = f"engines_{next(_feed_numbers)}"
    return Feed(
        feed=name,
        description="A feed of a test.",
        owner="tests",
        landing=LandingSettings(prefix=name, **landing),
        table=TableSettings(
            columns=tuple(_column(c) for c in table.columns),
            partition_column=table.partition_column,
            partition_by=table.partition_by,
            snapshot_id_column=table.snapshot_id_column,
            keys=table.keys,
            cluster_by=table.cluster_by,
            retention_days=table.retention_days,
            absent_keys=table.absent_keys,
            absent_dates=table.absent_dates,
        ),
        # Engine cdc supports no other mode: with last_seen it would stream every delivered row.
        update_id_mode=UpdateIdMode.LAST_CHANGED if engine is Engine.CDC else UpdateIdMode.LAST_SEEN,
        engine=engine,
        form=form,
        checks=NO_LIMITS,
    )


def _column(column: Column) -> ColumnSettings:
    return ColumnSettings.model_validate(
        {"name": column.name, "type": column.type, "mode": column.mode, "fields": tuple(map(_column, column.fields))}
    )


class FeedAgainstOracle(FeedOnStandIn):
    """A feed whose table may have any columns. A row is a dict of values by column name."""

    def __init__(self, clients: tuple[Storage, BigQuery], feed: Feed, places: Places = LOCAL) -> None:
        super().__init__(feed, *clients, places)
        self.table = feed.table.to_contract()
        self.oracle_table = oracle_table(self.table)

    def declare(self, table: TableContract) -> None:
        """Change the columns that the feed declares to those of `table`."""
        self.declare_columns(tuple(map(_column, table.columns)))

    def declare_columns(self, columns: Sequence[ColumnSettings]) -> None:
        """Change the columns that the feed declares. Unlike a table contract, these settings may have `since`.

        `since`: the first snapshot id whose files have the column.
        """
        table = self.feed.table.model_copy(update={"columns": tuple(columns)})
        self.feed = self.feed.model_copy(update={"table": table})
        self.table = table.to_contract()
        self.oracle_table = oracle_table(self.table)

    def land(self, snapshot_id: int, rows: Sequence[Row]) -> str:
        return self.land_files(snapshot_id, self.files_of(rows))

    def files_of(self, rows: Sequence[Row]) -> dict[str, bytes]:
        """The content of the delivery's files, by name below the delivery's folder.

        There is one file for each date, or, in a feed without date folders, two files with rows of any date.
        """
        whole = pa.Table.from_pylist(list(rows), schema=arrow_schema(self.table.columns))
        if not self.feed.landing.date_folders:
            half = whole.num_rows // 2
            return {"a.parquet": parquet(whole.slice(0, half)), "b.parquet": parquet(whole.slice(half))}
        folder, of_days = self.table.date_folder, by_day(whole, self.table.partition_column)
        return {f"{folder}={day}/part-0.parquet": parquet(rows_of_day) for day, rows_of_day in of_days.items()}

    def manifest(self) -> Manifest:
        """The manifest of the live generation."""
        generation = self.services.current.read().generation
        assert generation
        return self.services.manifests.read(generation)

    def entry(self, day: date) -> DateEntry:
        """The entry of a date in the manifest of the live generation."""
        return next(e for e in self.manifest().dates if e.date == day)

    def table_rows(self, table: str | None = None) -> list[list[Any]]:
        """All rows of target (or of `table`) in the form of `OracleState.table_rows` (oracle.py)."""
        found = self.bigquery.query_and_wait(f"SELECT * FROM {self.places.dataset}.{table or self.feed.target}")
        return comparable(self.oracle_table, [dict(row.items()) for row in found])

    def assert_equal(self, expected: OracleState) -> None:
        """Assert that target's rows, and counts and newest snapshots in the live manifest, are those of the oracle."""
        assert self.table_rows() == expected.table_rows()
        assert_manifest(self.manifest(), expected)


def parquet(table: pa.Table) -> bytes:
    """The content of a Parquet file with this table."""
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()
