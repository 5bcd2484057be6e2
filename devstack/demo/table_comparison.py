"""Reads a published table, and compares it with the expected one. The order of rows does not count, duplicates do."""

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from devstack.connection import Connection
from devstack.producer.demo_feeds import SCHEMA

MAX_SAMPLES = 5


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    `too_many`: the number of published rows that are not expected. `too_few`: the number of expected rows that are not
    published. `samples`: some of these rows, as text.
    """

    published_rows: int
    expected_rows: int
    too_many: int
    too_few: int
    samples: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return self.too_many == 0 and self.too_few == 0


def read_target(connection: Connection, feed: str) -> pa.Table:
    """All rows of the feed's target."""
    table = f"`{connection.project}.{connection.dataset}.{feed}`"
    rows = connection.bigquery_client().query(f"SELECT {', '.join(SCHEMA.names)} FROM {table}").result()
    return rows.to_arrow(create_bqstorage_client=False).cast(SCHEMA)


def compare(published: pa.Table, expected: pa.Table) -> Comparison:
    """Compare two tables with the columns of SCHEMA."""
    with duckdb.connect() as connection:
        connection.register("published", published)
        connection.register("expected", expected)
        too_many = _except(connection, "published", "expected")
        too_few = _except(connection, "expected", "published")
    samples = [f"published, not expected: {row}" for row in too_many[:MAX_SAMPLES]]
    samples += [f"expected, not published: {row}" for row in too_few[:MAX_SAMPLES]]
    return Comparison(published.num_rows, expected.num_rows, len(too_many), len(too_few), tuple(samples))


def _except(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> list[str]:
    """The rows of table `left` that table `right` lacks, as text."""
    columns = ", ".join(SCHEMA.names)
    statement = f"SELECT {columns} FROM {left} EXCEPT ALL SELECT {columns} FROM {right} ORDER BY ALL"
    rows = connection.execute(statement).fetchall()
    return [", ".join(f"{name}={value}" for name, value in zip(SCHEMA.names, row, strict=True)) for row in rows]
