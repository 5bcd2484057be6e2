"""Reads the feed files in dags/feeds, and names the two feeds of the demo with the columns of their tables."""

from pathlib import Path

import pyarrow as pa

from dedup_clone.settings.feed import Feed, read_feed

FEEDS_FOLDER = Path(__file__).resolve().parents[2] / "dags" / "feeds"
REALISTIC_FEED = "product_attributes"
EXAMPLE_FEED = "worked_example"
FEEDS = (EXAMPLE_FEED, REALISTIC_FEED)

KEYS = ("date", "product_id", "store_id", "attribute_id")
VALUE = "attr_value"
SNAPSHOT_ID = "update_id"
SCHEMA = pa.schema([("date", pa.date32()), *((name, pa.int64()) for name in (*KEYS[1:], VALUE, SNAPSHOT_ID))])


def feed_names() -> list[str]:
    return sorted(path.stem for path in FEEDS_FOLDER.glob("*.yaml"))


def read(name: str) -> Feed:
    """The feed of this name. Raises ConfigurationError if its file is missing or invalid."""
    return read_feed(FEEDS_FOLDER / f"{name}.yaml")
