"""Makes inputs with which every check passes. A test changes one value in them to make a check fail.

`changes` of a function: other values of the fields of what it makes.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import DataFile, DateEntry, FileList, Manifest
from dedup_clone.contract.table import Column, TableContract, UpdateIdMode
from dedup_clone.warehouse.metadata import Observation, PartitionMetadata, TableMetadata

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
COLUMNS = (Column("date", "DATE"), Column("product_id", "INT64"), Column("v", "INT64"), Column("update_id", "INT64"))
TABLE = TableContract(COLUMNS, "date", "update_id", ("date", "product_id"), ("product_id",), 730)


def entry(day: date, rows: int = 10, **changes: object) -> DateEntry:
    values: dict[str, object] = {
        "date": day,
        "rows": rows,
        "new_keys": 0,
        "changed": 0,
        "survivors": 0,
        "ties": 0,
        "plan": "window",
        "plan_reason": "",
        "min_update_id": 1,
        "max_update_id": 7,
        "adopted_delivery": None,
        "key_fingerprint": None,
        "files_digest": "",
    }
    return DateEntry(**{**values, **changes})  # type: ignore[arg-type]


def manifest(*entries: DateEntry, generation: int = 2, parent: int | None = 1) -> Manifest:
    return Manifest(
        feed="f",
        kind=Kind.PUBLISH,
        generation=generation,
        parent=parent,
        restores=None,
        engine=Engine.SPARK,
        table=TABLE,
        update_id_mode=UpdateIdMode.LAST_SEEN,
        retention_day=TODAY - timedelta(days=729),
        data_folder="gs://state/f/data/00000002-abc/",
        file_list_digest="",
        deliveries=(Delivery(7, 1),),
        excluded=(),
        applied=(Delivery(7, 1),),
        code_version="0",
        run_id="r",
        attempt="00000002-abc",
        created_at=NOW,
        dropped_rows=0,
        dates=entries,
    )


def files(*counts: tuple[date, int]) -> FileList:
    """A list with one file for each date and its number of rows."""
    return FileList(tuple(DataFile(f"date={d}/a.parquet", d, n, 1, 1, 7) for d, n in counts))


def table(name: str = "f_staging", **changes: object) -> TableMetadata:
    values: dict[str, object] = {
        "name": name,
        "columns": COLUMNS,
        "rows": 10,
        "size": 100,
        "partition_column": "date",
        "expiration_days": 730.0,
        "cluster_by": ("product_id",),
        "labels": {},
        "streaming_buffer": None,
        "clone_of": None,
        "clone_time": None,
        "created_at": NOW,
    }
    return TableMetadata(**{**values, **changes})  # type: ignore[arg-type]


def partition(day: date | None, rows: int = 10, changed: datetime = NOW - timedelta(minutes=1)) -> PartitionMetadata:
    """A partition; that of NULL if `day` is None. `changed`: the time of its last change."""
    return PartitionMetadata("__NULL__" if day is None else day.strftime("%Y%m%d"), rows, changed)


def observation(*partitions: PartitionMetadata, facts: TableMetadata | None = None) -> Observation:
    return Observation(facts or table(), partitions, NOW, 10 * 2**20)
