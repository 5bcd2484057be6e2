"""Tables, and random histories of snapshots that differ little from each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import strategies as st

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, PRODUCTS
from tests.shared.random_rows import FIRST_DAY

DAYS = 3
# A key column of every type that may be one.
EVERY_KEY = TableContract(
    columns=(
        Column("number", "INT64"),
        Column("day", "DATE"),
        Column("name", "STRING"),
        Column("raw", "BYTES"),
        Column("flag", "BOOL"),
        Column("price", "NUMERIC"),
        Column("at", "TIMESTAMP"),
        Column("other_day", "DATE"),
        Column("value", "FLOAT64"),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("number", "day", "name", "raw", "flag", "price", "at", "other_day"),
    cluster_by=("name",),
    retention_days=730,
)
ONLY_DATE = TableContract(
    columns=(Column("day", "DATE"), Column("value", "STRING"), Column("version", "INT64")),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day",),
    cluster_by=(),
    retention_days=730,
)


def nested_key(number: int) -> dict[str, Any]:
    return {"name": f"n{number % 7}", "code": (number // 7 - 20) * 2**37}


def every_key(number: int) -> dict[str, Any]:
    """Neighbours differ in one column, so that each column decides somewhere."""
    low = number % 6
    return {
        "number": (2**63 - 1 if low == 1 else -(2**63)) + (number // 6 if low != 1 else -(number // 6)),
        "name": "x" * (low == 2),
        "raw": b"\x00" * (low == 3),
        "flag": low == 4,
        "price": Decimal("0.000000001") * (low == 5),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "other_day": date(2026, 1, 1),
    }


def product_key(number: int) -> dict[str, Any]:
    return {"product_id": number // 12, "store_id": number % 4, "attribute_id": number % 12}


def no_key(_: int) -> dict[str, Any]:
    return {}


def nested_values(random: Random) -> dict[str, Any]:
    return {
        "amount": random.choice([None, 1.5, float("nan")]),
        "note": random.choice([None, "", "y" * 3000]),
        "seen": random.choice([None, True]),
        "raw": random.choice([None, b"", b"\xff"]),
        "tags": random.choice([[], ["a"], ["a", "b"]]),
        "info": random.choice([None, {"weight": None, "label": "l"}, {"weight": 2.0, "label": None}]),
        "parts": random.choice([[], [{"number": None, "price": Decimal("7.500000000")}]]),
    }


@dataclass(frozen=True)
class Kind:
    table: TableContract
    key: Callable[[int], dict[str, Any]]
    values: Callable[[Random], dict[str, Any]]
    keys: int = 90


KINDS = {
    "nested": Kind(NESTED, nested_key, nested_values),
    "every_key": Kind(EVERY_KEY, every_key, lambda random: {"value": random.choice([None, 0.0, 1.0])}),
    "products": Kind(
        PRODUCTS, product_key, lambda random: {"attr_value": random.choice([None, 1, -(2**62)])}, keys=150
    ),
    "only_date": Kind(ONLY_DATE, no_key, lambda random: {"value": random.choice([None, "v"])}, keys=1),
}


class Producer:
    """Makes each snapshot from the one before: a few keys go, a few come (back), a few dates are left out."""

    def __init__(self, kind: Kind, seed: int, repeat: float = 0.0) -> None:
        self.kind = kind
        self.random = Random(seed)
        self.repeat = repeat
        self.present = [set(self.random.sample(range(kind.keys), (kind.keys + 1) // 2)) for _ in range(DAYS)]

    def snapshot(self, snapshot_id: int) -> list[dict[str, Any]]:
        random, rows = self.random, []
        for number, keys in enumerate(self.present):
            for _ in range(random.choice([0, 0, 1, 4])):
                keys.discard(random.randrange(self.kind.keys))
                keys.add(random.randrange(self.kind.keys))
            if random.random() < 0.15 and number:
                continue
            day = FIRST_DAY + timedelta(days=number)
            for key in keys:
                rows += [self._row(day, key, snapshot_id) for _ in range(1 + (random.random() < self.repeat))]
        random.shuffle(rows)
        return rows

    def _row(self, day: date, key: int, snapshot_id: int) -> dict[str, Any]:
        table = self.kind.table
        row = {table.partition_column: day, **self.kind.key(key), **self.kind.values(self.random)}
        return {**row, table.snapshot_id_column: snapshot_id}


def land(area: SparkJobFeed, random: Random, snapshot_id: int, rows: list[dict[str, Any]]) -> Arrival:
    """Several files a date, several row groups a file, empty files among them; none of an earlier delivery is left."""
    folder = area.uri(area.folder(snapshot_id))
    for name in storage.list_objects(folder):
        storage.delete(storage.join(folder, name))
    table = pa.Table.from_pylist(rows, schema=arrow_schema(area.table.columns))
    day = area.table.partition_column
    for value in pc.unique(table[day]).to_pylist():
        part = table.filter(pc.equal(table[day], pa.scalar(value, pa.date32())))
        cut = random.randrange(part.num_rows + 1)
        for number, piece in enumerate((part.slice(0, cut), part.slice(cut))):
            stream = pa.BufferOutputStream()
            pq.write_table(piece, stream, row_group_size=random.choice([3, 1000]))
            area.put(snapshot_id, f"{day}={value}/{snapshot_id}-{number}.parquet", stream.getvalue().to_pybytes())
    return area.arrive(snapshot_id)


def spoil_fingerprints(area: SparkJobFeed, random: Random) -> None:
    """Sometimes an object is gone or damaged when the next publish comes."""
    if not area.parent:
        return
    folder = Path(storage.join(area.parent.data_uri, stored.FOLDER))
    for path in sorted(folder.glob("*.bin")) if folder.is_dir() else []:
        chance = random.random()
        if chance < 0.1:
            path.unlink()
        elif chance < 0.2:
            content = bytearray(path.read_bytes())
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
            path.write_bytes(content)


# Which part of the keys a delivery holds twice.
REPEATED = st.sampled_from([0.0, 0.02, 0.5])
