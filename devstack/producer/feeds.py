"""Reads the feed files in dags/feeds, and names the two feeds of the demo with the columns of their tables."""

from pathlib import Path

import pyarrow as pa

from dedup_clone.contract.table import TableContract
from dedup_clone.settings.feed import Feed, read_feed

REALISTIC_FEED = "product_attributes"
EXAMPLE_FEED = "worked_example"
FEEDS = (REALISTIC_FEED, EXAMPLE_FEED)

SCHEMA = pa.schema([
    ("date", pa.date32()),
    ("product_id", pa.int64()),
    ("store_id", pa.int64()),
    ("attribute_id", pa.int64()),
    ("attr_value", pa.int64()),
    ("update_id", pa.int64()),
])  # fmt: skip
ROWS_PER_DATE = {REALISTIC_FEED: 8_000}  # of a new date; 1,000 for other feeds

KEYS = ("date", "product_id", "store_id", "attribute_id")
VALUE = "attr_value"
SNAPSHOT_ID = "update_id"


FEEDS_FOLDER = Path(__file__).resolve().parents[2] / "dags" / "feeds"


def feed_names() -> list[str]:
    return sorted(path.stem for path in FEEDS_FOLDER.glob("*.yaml"))


def read(name: str) -> Feed:
    """The feed of this name. Raises ConfigurationError if its file is missing or invalid."""
    return read_feed(FEEDS_FOLDER / f"{name}.yaml")


def table_of(settings: Feed) -> TableContract:
    return settings.table.to_contract()
