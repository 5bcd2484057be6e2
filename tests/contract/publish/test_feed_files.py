"""A feed is one file: tables, the real dedup job, load, checks and swap follow from it alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.settings.feed import read_feed
from deploy.__main__ import main
from testkit.dedup_job import Row, parquet_bytes
from testkit.feed_against_oracle import FeedAgainstOracle
from testkit.feed_on_stand_in import TODAY
from testkit.oracle import OracleDelivery, OracleState

DAYS = [TODAY - timedelta(days=n) for n in (1, 40)]
MIDNIGHT = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC)
# As the earthquakes of the United States Geological Survey: a text id, and an address that is as unique; times in UTC
# and without a zone, a nested point, lists, decimals, many NULLs, and types that are narrower than BigQuery's.
EARTHQUAKES = pa.schema({
    "mag": pa.float64(),
    "place": pa.large_string(),
    "time": pa.timestamp("ms", "UTC"),
    "local_time": pa.timestamp("us"),
    "url": pa.string(),
    "felt": pa.int16(),
    "depth": pa.float32(),
    "damage_usd": pa.decimal128(12, 2),
    "alert": pa.dictionary(pa.int32(), pa.string()),
    "tsunami": pa.bool_(),
    "types": pa.list_(pa.string()),
    "geometry": pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.float64()))]),
    "id": pa.string(),
    "event_date": pa.date32(),
    "snapshot_id": pa.int64(),
})  # fmt: skip


def earthquakes(random: Random, snapshot_id: int) -> list[Row]:
    """Each snapshot has the same rows, but for the first `snapshot_id` ones."""
    rows = [
        {
            "mag": random.choice([None, -0.4, 2.5, 6.1]),
            "place": random.choice([None, "8km NNE of Ŷreka, CA", "South of the Fiji Islands"]),
            "time": MIDNIGHT - timedelta(days=(TODAY - day).days, milliseconds=-random.randrange(86_000_000)),
            "local_time": random.choice([None, MIDNIGHT.replace(tzinfo=None)]),
            "url": f"https://earthquake.example.org/{day}/{number}",
            "felt": random.choice([None, None, 3]),
            "depth": random.choice([0.75, 10.5]),
            "damage_usd": None,
            "alert": random.choice([None, "green", "yellow"]),
            "tsunami": random.random() < 0.1,
            "types": random.choice([[], ["origin"], ["dyfi", "geoserve"]]),
            "geometry": {"type": "Point", "coordinates": [random.uniform(-180, 180), 38.5, 4.25]},
            "id": f"{random.choice(['nc', 'us', 'ak'])}{number:08x}",
            "event_date": day,
            "snapshot_id": snapshot_id,
        }
        for day in DAYS
        for number in range(50)
    ]
    return rows[snapshot_id:]


def test_the_file_that_make_feed_writes_publishes_the_sample_and_its_next_snapshot(
    clients: tuple[Storage, BigQuery], tmp_path: Path
) -> None:
    snapshots = {number: earthquakes(Random("earthquakes"), number) for number in (1, 2)}
    files = {
        number: {
            f"event_date={day}/part-0.parquet": parquet_bytes([r for r in rows if r["event_date"] == day], EARTHQUAKES)
            for day in DAYS
        }
        for number, rows in snapshots.items()
    }
    for path, content in files[1].items():
        sample = tmp_path / "landed" / "snapshot_id=1" / path
        sample.parent.mkdir(parents=True)
        sample.write_bytes(content)
    (tmp_path / "feeds").mkdir()
    assert main(["feed", "earthquakes", str(tmp_path / "landed"), "--owner", "tests"], tmp_path) == 0
    feed = read_feed(tmp_path / "feeds" / "earthquakes.yaml")
    assert feed.table.keys == ("event_date", "id")
    world = FeedAgainstOracle(clients, feed)
    state, oldest = OracleState(world.oracle_table), TODAY - timedelta(days=feed.table.retention_days - 1)
    for number, rows in snapshots.items():
        world.publish(world.land_files(number, files[number]))
        state = state.apply([OracleDelivery(number, rows)], oldest)
        world.assert_equal(state)
