"""Names the two feeds of the demo, and the columns of their tables."""

import pyarrow as pa

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
