"""Columns added between publishes, NULL structs with required fields, and columns named like those of the plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_spark.column_types import arrow_schema
from testkit.generated_tables import GeneratedHistory
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, PRODUCTS, oracle_table
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, row, rows

SIZE, SIZES = Column("size", "INT64"), Column("sizes", "STRING", ColumnMode.REPEATED)
SINCE = {"info.size": 4, "parts.size": 4, "size": 4, "sizes": 4}


def wider(column: Column) -> Column:
    return replace(column, fields=(*column.fields, SIZE)) if column.fields else column


WIDER = replace(NESTED, columns=(*map(wider, NESTED.columns), SIZE, SIZES))


def widened(random: Random, rows: Sequence[Row], *, have_values: bool) -> list[Row]:
    """The rows with values in the new columns, or as readers see rows without them."""

    def size() -> int | None:
        return random.choice([None, 1, 2]) if have_values else None

    return [
        {
            **row,
            "info": row["info"] and {**row["info"], "size": size()},
            "parts": [{**part, "size": size()} for part in row["parts"] or []],
            "size": size(),
            "sizes": ["s"] if size() else [],
        }
        for row in rows
    ]


def play_growing_feed(session: SparkSession | None, folder: Path, seed: int, mode: UpdateIdMode, plan: Plan) -> None:
    """Two publishes before the change, one of a snapshot without the columns after it, then ones with them.

    In mode last_seen a late snapshot without the columns comes last.
    """
    random = Random(seed)
    feed = SparkJobFeed(session, str(folder / "landing"), str(folder / "state"), NESTED, mode, plan)
    job = JobAgainstOracle(feed)
    snapshots = GeneratedHistory(NESTED, random, FIRST, days=4)
    for snapshot_id in (1, 3, 4, 5, 6, *([2] if mode is UpdateIdMode.LAST_SEEN else [])):
        plain, has_columns = snapshots.snapshot(snapshot_id), snapshot_id >= 5
        if snapshot_id == 4 and not job.since:
            feed.table, job.since = WIDER, {path: 5 for path in SINCE}
            old = widened(random, list(job.state.rows.values()), have_values=False)
            table = oracle_table(WIDER)
            job.state = replace(job.state, table=table, rows={table.key(one): one for one in old})
        schema = arrow_schema((WIDER if has_columns else NESTED).columns)
        job.land(snapshot_id, plain if not has_columns else widened(random, plain, have_values=True), schema=schema)
        if feed.table is WIDER and not has_columns:  # the oracle sees the rows as readers do
            arrival, _ = job.landed[snapshot_id]
            job.landed[snapshot_id] = arrival, widened(random, plain, have_values=False)
        job.publish(snapshot_id)


@pytest.mark.parametrize("mode", list(UpdateIdMode))
@pytest.mark.parametrize("seed", [0, 5])
def test_files_with_and_without_new_columns_become_one_table(tmp_path: Path, seed: int, mode: UpdateIdMode) -> None:
    play_growing_feed(None, tmp_path, seed, mode, Plan.AUTO)


@pytest.mark.spark
def test_spark_fills_new_columns_with_null_too(spark: SparkSession, tmp_path: Path) -> None:
    play_growing_feed(spark, tmp_path, 1, UpdateIdMode.LAST_SEEN, Plan.WINDOW)


def test_a_snapshot_that_must_have_the_columns_is_refused_without_them(area: SparkJobFeed) -> None:
    area.table = WIDER
    plain = GeneratedHistory(NESTED, Random(1), FIRST).snapshot(4)
    (refused,) = area.publish(area.land(4, plain, schema=arrow_schema(NESTED.columns))).refused
    assert "column [size] is missing, expected [INT64]" in refused.reason
    assert "column [info] has fields ['weight', 'label'], expected ['weight', 'label', 'size']" in refused.reason


def test_a_change_says_null_for_what_the_old_row_lacked(area: SparkJobFeed) -> None:
    area.with_changes = True
    area.publish(area.land(1, rows(1, 1, 2)))
    area.table = replace(PRODUCTS, columns=(*PRODUCTS.columns, Column("note", "STRING")))
    noted = [{**row(2, 1, 10), "note": "n"}, {**row(2, 2, 10), "note": None}]
    (change,) = area.changes(area.publish(area.land(2, noted))) or []
    assert (change["change_type"], change["date"], change["product_id"]) == ("changed", FIRST, 1)
    assert (change["old_row"], change["new_row"]) == ({**row(1, 1, 10), "note": None}, noted[0])


LABEL = Column("label", "STRING", ColumnMode.REQUIRED)
STRUCTS = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("code", "INT64"),
        Column("info", "STRUCT", fields=(LABEL, Column("weight", "FLOAT64"))),
        Column("parts", "STRUCT", ColumnMode.REPEATED, (Column("inner", "STRUCT", fields=(LABEL,)),)),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "code"),
    cluster_by=("code",),
    retention_days=730,
)
# As most writers leave it: every field is nullable.
INNER = pa.struct([("label", pa.string())])
WRITTEN = pa.schema(
    [
        ("day", pa.date32()),
        ("code", pa.int64()),
        ("info", pa.struct([("label", pa.string()), ("weight", pa.float64())])),
        ("parts", pa.list_(pa.field("element", pa.struct([("inner", INNER)])))),
        ("version", pa.int64()),
    ]
)


def struct_row(version: int, code: int, info: str | None, *parts: str | None) -> Row:
    return {
        "day": FIRST,
        "code": code,
        "info": None if info is None else {"label": info, "weight": None},
        "parts": [{"inner": None if label is None else {"label": label}} for label in parts],
        "version": version,
    }


STRUCT_SNAPSHOTS = [
    [
        struct_row(1, 1, None, None, "a"),
        struct_row(1, 2, "x"),
        struct_row(1, 3, None),
        struct_row(1, 4, "", "b", None),
    ],
    [
        struct_row(2, 1, None, None, "a"),
        struct_row(2, 2, None, None),
        struct_row(2, 3, "", ""),
        struct_row(2, 5, None),
        struct_row(2, 5, "y"),
    ],
]


def play_structs(session: SparkSession | None, folder: Path, plan: Plan) -> None:
    """A NULL STRUCT may have REQUIRED fields (BigQuery documentation: nested-repeated)."""
    job = JobAgainstOracle(SparkJobFeed(session, str(folder / "landing"), str(folder / "state"), STRUCTS, plan=plan))
    for version, snapshot in enumerate(STRUCT_SNAPSHOTS, start=1):
        job.land(version, snapshot, schema=WRITTEN)
        job.publish(version)


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
def test_null_structs_with_required_fields(tmp_path: Path, plan: Plan) -> None:
    play_structs(None, tmp_path, plan)


# Plan window adds columns with such names and a slash before them.
NAMES = (
    *("_rank", "_winner", "_first_other", "_unbroken", "_source", "_output_file", "_bucket", "_surplus", "_newest"),
    *("_in_parent", "_in_state", "_changed", "_metadata", "new", "old"),
)
NAMED = replace(
    PRODUCTS, columns=(*PRODUCTS.columns[:-1], *(Column(name, "INT64") for name in NAMES), PRODUCTS.columns[-1])
)


def named_row(snapshot_id: int, product: int, value: int) -> Row:
    return {**row(snapshot_id, product, value), **{name: 1000 * value + n for n, name in enumerate(NAMES)}}


@pytest.mark.spark
@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_plan_window_leaves_structs_and_columns_with_names_of_helpers_as_they_are(
    spark: SparkSession, tmp_path: Path, mode: UpdateIdMode
) -> None:
    play_structs(spark, tmp_path / "structs", Plan.WINDOW)
    folders = str(tmp_path / "landing"), str(tmp_path / "state")
    feed = SparkJobFeed(spark, *folders, NAMED, mode, Plan.WINDOW, date_folders=False)
    job = JobAgainstOracle(feed)
    job.play([named_row(1, code, code) for code in range(3)])
    job.play([named_row(2, code, 7 if code == 1 else code) for code in range(1, 4)] + [named_row(2, 1, 5)])
