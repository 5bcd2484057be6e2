"""The published table as a reader sees it, through google-cloud-bigquery."""

import pyarrow as pa

from devstack.connection import Connection
from devstack.producer.schema import SCHEMA


def read(connection: Connection, feed: str) -> pa.Table:
    """All rows of the feed's target."""
    table = f"`{connection.project}.{connection.dataset}.{feed}`"
    rows = connection.bigquery_client().query(f"SELECT {', '.join(SCHEMA.names)} FROM {table}").result()
    return rows.to_arrow(create_bqstorage_client=False).cast(SCHEMA)
