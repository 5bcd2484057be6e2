"""Runs the demo on the local stack, which must be up: `python -m devstack.demo`.

Exits with 0 only if the published tables equal those computed independently from the landed files.
"""

import sys
import time

import pyarrow as pa

from dedup_clone.state.ledger import LedgerRecord
from devstack.connection import Connection, connect
from devstack.demo import output
from devstack.demo.airflow_api import AirflowApi, DemoError
from devstack.demo.publish_runs import follow, read_record, wait_for_dags
from devstack.demo.table_comparison import differences, expected_table, read_target
from devstack.producer import next_snapshot
from devstack.producer.feeds import EXAMPLE_FEED, FEEDS, REALISTIC_FEED
from devstack.stack.layout import StackError
from devstack.stack.names_and_logins import PAGE

MAX_SAMPLES = 5
# The feeds of each round. The snapshots of a round are published at the same time.
ROUNDS = ((EXAMPLE_FEED, REALISTIC_FEED), (EXAMPLE_FEED, REALISTIC_FEED), (REALISTIC_FEED,))


def publish_all(
    connection: Connection, api: AirflowApi, terminal: output.Terminal
) -> tuple[list[LedgerRecord], list[pa.Table]]:
    """Land and publish all snapshots. Raises DemoError as soon as one publish fails.

    Returns the ledger record of each publish, and the worked example's table after each of its publishes.
    """
    records: list[LedgerRecord] = []
    tables: list[pa.Table] = []
    for feeds_of_round in ROUNDS:
        all_landed = []
        for feed in feeds_of_round:
            landed = next_snapshot.land(connection, feed)
            all_landed.append(landed)
            rows = f"{landed.row_count:,} rows of {landed.date_count} dates"
            terminal.line(f"  landed     {feed} snapshot {landed.delivery.snapshot_id}: {rows}")
        for published in follow(api, all_landed, terminal):
            record = read_record(connection, published.feed, published.run_id)
            records.append(record)
            if published.feed == EXAMPLE_FEED:
                tables.append(read_target(connection, EXAMPLE_FEED))
            terminal.line(
                f"  published  {published.feed} snapshot {record.snapshot_id} as generation {record.generation}: "
                f"{record.lag_s or 0:.1f} s after its arrival"
            )
    return records, tables


def compare_tables(connection: Connection, terminal: output.Terminal) -> bool:
    """Compare each published table with the one computed from the landed files. Returns whether all are equal."""
    all_equal = True
    landing_bucket = connection.storage_client().bucket(connection.landing_bucket)
    terminal.line("\nPublished tables against an independent computation from the landed files:")
    for feed in FEEDS:
        started = time.monotonic()
        expected = expected_table(landing_bucket, feed, next_snapshot.refused_deliveries(connection, feed))
        published = read_target(connection, feed)
        different = differences(published, expected)
        word = "DIFFERENT" if different else "equal"
        terminal.line(f"  {feed}: {word}, {published.num_rows:,} rows ({time.monotonic() - started:.1f} s)")
        if different:
            terminal.line(f"    expected {expected.num_rows:,} rows; {len(different):,} differ, for example:")
            terminal.line(*(f"    {row}" for row in different[:MAX_SAMPLES]))
        all_equal = all_equal and not different
    return all_equal


def run() -> bool:
    """Run the demo. Returns whether the published tables are right."""
    started = time.monotonic()
    connection, terminal = connect(), output.Terminal()
    api = AirflowApi(connection)
    terminal.line(f"Demo on {connection.airflow_url}, project {connection.project}")
    wait_for_dags(api, FEEDS, terminal)
    records, tables = publish_all(connection, api, terminal)
    snapshot_id = max(record.snapshot_id for record in records if record.feed == EXAMPLE_FEED)
    terminal.line(f"\n{EXAMPLE_FEED} after (snapshot {snapshot_id} published):")
    terminal.line(*output.compared_rows(tables[-2], tables[-1], snapshot_id))
    terminal.line(
        "\nPublished (kept: rows that the snapshot lacks; below each: its longest phases in seconds, see "
        "docs/costs-and-limits.md):",
        *output.publishes(records),
    )
    all_equal = compare_tables(connection, terminal)
    login = f"login: {connection.airflow_user} / {connection.airflow_password}"
    tables_in = f"{connection.project}.{connection.dataset}.* in BigQuery's stand-in"
    terminal.line(
        f"\nThe demo took {time.monotonic() - started:.0f} s. The stack stays up until `make down`.",
        f"  Snapshots  {connection.airflow_url}/{PAGE}   {login}   is each table fresh, what has each publish changed",
        f"  Airflow    {connection.airflow_url}   the same login",
        f"  Tables     {connection.bigquery_url}   {tables_in}",
        f"  Files      {connection.storage_url}   gs://{connection.landing_bucket}, gs://{connection.state_bucket}",
        "  One more snapshot: `make land`. Break and roll back a table, use bq or DuckDB: docs/tutorial.md",
    )
    return all_equal


def main() -> int:
    try:
        return 0 if run() else 1
    except (DemoError, StackError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; the stack is still up.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
