"""`make feed`: the file that it makes publishes samples in the shape of three public data sets, by the real job.

The columns, types and keys are those of the data sets as they are published, with what a producer must add: a date and
the snapshot's id. The values are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.settings.feed import Feed, read_feed
from deploy.new_feed.__main__ import main
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_against_oracle import FeedAgainstOracle
from testkit.feed_on_stand_in import TODAY
from testkit.oracle import OracleDelivery, OracleState
from testkit.spark_dedup_process import SparkDedupProcess

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

DAYS = [TODAY - timedelta(days=n) for n in (1, 40)]
MIDNIGHT = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC)


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


# Trip records of New York's taxis: no column identifies a trip, and times have no zone.
TAXI = _schema(
    VendorID=pa.int32(),
    tpep_pickup_datetime=pa.timestamp("us"),
    tpep_dropoff_datetime=pa.timestamp("us"),
    passenger_count=pa.int64(),
    trip_distance=pa.float64(),
    store_and_fwd_flag=pa.large_string(),
    PULocationID=pa.int32(),
    DOLocationID=pa.int32(),
    payment_type=pa.int64(),
    fare_amount=pa.float64(),
    Airport_fee=pa.float64(),
    pickup_day=pa.date32(),
    update_id=pa.int64(),
)


def taxi_trips(random: Random) -> list[Row]:
    rows = []
    for day in DAYS:
        for _ in range(60):
            midnight = MIDNIGHT.replace(tzinfo=None) - timedelta(days=(TODAY - day).days)
            start = midnight + timedelta(seconds=random.randrange(86_000))
            rows.append(
                {
                    "VendorID": random.choice([1, 2]),
                    "tpep_pickup_datetime": start,
                    "tpep_dropoff_datetime": start + timedelta(seconds=random.randrange(60, 3600)),
                    "passenger_count": random.choice([None, 1, 2, 6]),
                    "trip_distance": random.choice([0.0, 1.5, 17.23]),
                    "store_and_fwd_flag": random.choice([None, "N", "Y"]),
                    "PULocationID": random.randrange(1, 20),
                    "DOLocationID": random.randrange(1, 20),
                    "payment_type": random.choice([0, 1, 2]),
                    "fare_amount": random.choice([-5.0, 7.2, 70.0]),
                    "Airport_fee": random.choice([None, 0.0, 1.75]),
                    "pickup_day": day,
                }
            )
    return rows


# Earthquakes of the United States Geological Survey: a text id, and an address that is as unique; times in UTC, a
# nested point, lists, many NULLs.
EARTHQUAKES = _schema(
    mag=pa.float64(),
    place=pa.string(),
    time=pa.timestamp("ms", "UTC"),
    updated=pa.timestamp("ms", "UTC"),
    url=pa.string(),
    felt=pa.int64(),
    alert=pa.dictionary(pa.int32(), pa.string()),
    tsunami=pa.bool_(),
    types=pa.list_(pa.string()),
    geometry=pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.float64()))]),
    id=pa.string(),
    event_date=pa.date32(),
    snapshot_id=pa.int64(),
)


def earthquakes(random: Random) -> list[Row]:
    return [
        {
            "mag": random.choice([None, -0.4, 2.5, 6.1]),
            "place": random.choice([None, "8km NNE of Ŷreka, CA", "South of the Fiji Islands"]),
            "time": MIDNIGHT - timedelta(days=(TODAY - day).days, milliseconds=-random.randrange(86_000_000)),
            "updated": random.choice([None, MIDNIGHT]),
            "url": f"https://earthquake.example.org/{day}/{number}",
            "felt": random.choice([None, None, 3]),
            "alert": random.choice([None, "green", "yellow"]),
            "tsunami": random.random() < 0.1,
            "types": random.choice([[], ["origin"], ["dyfi", "geoserve"]]),
            "geometry": {"type": "Point", "coordinates": [random.uniform(-180, 180), 38.5, 4.25]},
            "id": f"{random.choice(['nc', 'us', 'ak'])}{number:08x}",
            "event_date": day,
        }
        for day in DAYS
        for number in range(50)
    ]


# Liquor sales of Iowa: amounts as decimals, and an invoice line that is unique; its files have no date folders.
SALES = _schema(
    invoice_and_item_number=pa.string(),
    date=pa.date32(),
    store_number=pa.string(),
    zip_code=pa.string(),
    item_number=pa.int64(),
    bottle_volume_ml=pa.int16(),
    state_bottle_cost=pa.decimal128(9, 2),
    sale_dollars=pa.decimal128(12, 2),
    volume_sold_liters=pa.float32(),
    snapshot_no=pa.int64(),
)


def liquor_sales(random: Random) -> list[Row]:
    return [
        {
            "invoice_and_item_number": f"INV-{day:%y%m%d}{number:05}",
            "date": day,
            "store_number": random.choice(["2633", "4829"]),
            "zip_code": random.choice([None, "50320"]),
            "item_number": random.randrange(10_000, 10_010),
            "bottle_volume_ml": random.choice([375, 750, 1750]),
            "state_bottle_cost": Decimal(random.randrange(100, 5000)) / 100,
            "sale_dollars": random.choice([None, Decimal("12.00"), Decimal("8754.36")]),
            "volume_sold_liters": random.choice([0.75, 10.5]),
        }
        for day in DAYS
        for number in range(50)
    ]


def make_feed(name: str, landed: Path, files: dict[str, bytes], feeds: Path) -> Feed:
    """The feed file that the command makes of these files."""
    for path, content in files.items():
        (landed / path).parent.mkdir(parents=True, exist_ok=True)
        (landed / path).write_bytes(content)
    feeds.mkdir()
    assert main([name, str(landed.parent), "--owner", "tests"], feeds) == 0
    return read_feed(feeds / f"{name}.yaml")


def files_of(schema: pa.Schema, rows: list[Row], day: str, *, date_folders: bool) -> dict[str, bytes]:
    if not date_folders:
        return {f"part-{n}.parquet": parquet_bytes(rows[n::2], schema) for n in range(2)}
    by_day = {value: [row for row in rows if row[day] == value] for value in DAYS}
    return {f"{day}={value}/part-0.parquet": parquet_bytes(part, schema) for value, part in by_day.items()}


@pytest.mark.parametrize(
    ("name", "schema", "make_rows", "keys"),
    [
        ("taxi_trips", TAXI, taxi_trips, None),
        ("earthquakes", EARTHQUAKES, earthquakes, ("event_date", "id")),
        ("liquor_sales", SALES, liquor_sales, ("date", "invoice_and_item_number")),
    ],
    ids=["taxi_trips", "earthquakes", "liquor_sales"],
)
def test_the_feed_file_of_a_public_data_set_publishes_it_and_its_next_snapshot(
    clients: tuple[Storage, BigQuery],
    real_dedup: SparkDedupProcess,
    tmp_path: Path,
    name: str,
    schema: pa.Schema,
    make_rows: Callable[[Random], list[Row]],
    keys: tuple[str, ...] | None,
) -> None:
    id_column, date_folders = schema.names[-1], schema is not SALES
    day = next(field.name for field in schema if pa.types.is_date(field.type))

    def snapshot(snapshot_id: int) -> list[Row]:
        """Each has the same rows, but for the first `snapshot_id` ones."""
        return [{**row, id_column: snapshot_id} for row in make_rows(Random(name))[snapshot_id:]]

    def files(snapshot_id: int) -> dict[str, bytes]:
        return files_of(schema, snapshot(snapshot_id), day, date_folders=date_folders)

    feed = make_feed(name, tmp_path / "landed" / "snapshot_id=1", files(1), tmp_path / "feeds")
    assert keys in (None, feed.table.keys)
    assert (feed.table.partition_column, feed.table.snapshot_id_column) == (day, id_column)
    world = FeedAgainstOracle(clients, feed)
    world.dedup = real_dedup
    state, oldest = OracleState(world.oracle_table), TODAY - timedelta(days=feed.table.retention_days - 1)
    for snapshot_id in (1, 2):
        world.publish(world.land_files(snapshot_id, files(snapshot_id)))
        state = state.apply([OracleDelivery(snapshot_id, snapshot(snapshot_id))], oldest)
        world.assert_equal(state)
