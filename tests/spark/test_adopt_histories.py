"""Plan adopt through whole histories, made at random, against the oracle. These need no Spark: nothing else is left.

Snapshots differ little from each other, as real ones do, so that most buckets agree and the others are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison import bucket_selection
from dedup_spark.fingerprints import stored
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, PRODUCTS, oracle_table
from tests.spark.expected_changes import assert_changes
from tests.spark.random_rows import FIRST_DAY
from tests.spark.small_limits import lower_limits
from tests.spark.split_dates import split_every_date
from tests.thoroughness import SEEDS, times

pytestmark = pytest.mark.spark

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


@dataclass(frozen=True)
class Played:
    """What happened: `published` and `expected` are the tables' rows after each publish, theirs and the oracle's."""

    plans: set[str]
    published: list[Any]
    expected: list[Any]


def play(area: SparkJobFeed, producer: Producer, publishes: list[int], *, late: bool = False) -> Played:
    """`publishes` are the numbers of deliveries folded in each. Counts and ties are compared on the way."""
    table, random = oracle_table(area.table), producer.random
    expected, newest, played = OracleState(table), 0, Played(set(), [], [])
    for count in publishes:
        ids = [newest + n for n in range(1, count + 1)]
        newest = ids[-1]
        if late and newest > 3 and random.random() < 0.4:
            ids[0] = random.randrange(1, newest)
        landed, delivered = [], []
        for snapshot_id in sorted(set(ids)):
            rows = producer.snapshot(snapshot_id)
            landed.append(land(area, random, snapshot_id, rows))
            delivered.append(OracleDelivery(snapshot_id, rows))
        spoil_fingerprints(area, random)
        candidate = area.publish(*landed)
        before, expected = expected, expected.apply(delivered, FIRST_DAY)
        played.published.append(comparable(table, area.rows()))
        played.expected.append(expected.table_rows())
        assert played.published[-1] == played.expected[-1]
        assert_counts(area, expected)
        assert_changes(area, candidate, before, expected, FIRST_DAY)
        for number, metrics in enumerate(candidate.deliveries):
            rows = delivered[number].rows
            keys = {table.key(row) for row in rows}
            assert metrics.ties == len(rows) - len(keys)
        assert area.manifest
        played.plans.update(entry.plan for entry in area.manifest.dates)
    return played


def assert_counts(area: SparkJobFeed, expected: OracleState) -> None:
    for day, counts in expected.counts.items():
        entry = area.entry(day)
        changed = counts.changed if entry.changed is None else entry.changed
        found = (entry.rows, entry.new_keys, changed, entry.survivors, entry.ties)
        assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties), day
        ids = [
            r[area.table.snapshot_id_column] for r in expected.rows.values() if r[area.table.partition_column] == day
        ]
        assert (entry.min_update_id, entry.max_update_id) == (min(ids), max(ids))
        assert sum(file.max_update_id < entry.max_update_id for file in area.files().files if file.date == day) <= 8


def settings_of(examples: int) -> settings:
    slow = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(
        max_examples=times(examples, 10 * examples), deadline=None, database=None, suppress_health_check=slow
    )


# Which part of the keys a delivery holds twice.
REPEATED = st.sampled_from([0.0, 0.02, 0.5])
PUBLISHES = st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=2, max_size=5)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=pytest.mark.exhaustive if name == "every_key" else ())
        for name, kind in KINDS.items()
    ],
)
@settings_of(2)
@given(
    publishes=PUBLISHES,
    seed=SEEDS,
    exact=st.sampled_from([True, False, False]),
    values=st.sampled_from([True, True, False]),
    sampled=st.sampled_from([0, 0, 64]),
    repeat=REPEATED,
)
def test_snapshots_in_order_are_adopted_and_give_the_oracles_table(
    kind: Kind, publishes: list[int], seed: int, exact: bool, values: bool, sampled: int, repeat: float
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_selection, "_EXAMPLE_BUCKETS", sampled)
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), kind.table, plan=Plan.ADOPT, exact=exact)
        area.compare_values, area.with_changes = values, not exact
        played = play(area, Producer(kind, seed, repeat), publishes)
        assert played.plans <= {"adopt", "carried"}
        assert played.published == played.expected
        assert area.manifest
        assert not values or None not in [entry.changed for entry in area.manifest.dates]


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", [0, 2], ids=["threads", "parts"])
@settings_of(2)
@given(publishes=PUBLISHES, seed=SEEDS, repeat=REPEATED)
def test_small_memory_and_several_threads_or_tasks_change_nothing(
    parts: int, publishes: list[int], seed: int, repeat: float
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        lower_limits(patch)
        if parts:
            split_every_date(patch, parts)
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), NESTED, plan=Plan.ADOPT)
        area.with_changes = True
        played = play(area, Producer(KINDS["nested"], seed, repeat), publishes)
        assert len(played.published) == len(publishes)
        assert played.published == played.expected


@settings_of(2)
@given(publishes=PUBLISHES, seed=SEEDS)
def test_repeated_keys_and_late_snapshots_give_the_oracles_table(
    spark: SparkSession, publishes: list[int], seed: int
) -> None:
    with TemporaryDirectory() as folder:
        area = SparkJobFeed(spark, folder, str(Path(folder) / "state"), NESTED, with_changes=True)
        played = play(area, Producer(KINDS["nested"], seed, repeat=0.01), publishes, late=True)
        assert len(played.published) == len(publishes)
        assert played.published == played.expected
