"""The producer's command line: `python -m devstack.producer land` lands one more snapshot in the local stack."""

import argparse
import sys
from datetime import UTC, datetime

from dedup_clone.contract.delivery import INT64_MAX
from dedup_clone.contract.errors import ConfigurationError
from devstack.connection import connect
from devstack.http_calls import Unreachable, call
from devstack.producer import feeds, landing, next_snapshot
from devstack.producer.feeds import REALISTIC_FEED
from devstack.stack.stack_errors import StackError


def _snapshot_id(text: str) -> int:
    number = int(text)
    if not 1 <= number <= INT64_MAX:
        raise argparse.ArgumentTypeError(f"found [{number}], expected 1 to {INT64_MAX}")
    return number


def land(feed: str, snapshot_id: int | None) -> None:
    """Land a snapshot, and print what has landed and where its publish can be followed.

    `snapshot_id`: None for the next id. Raises StackError if the stack is down, and ConfigurationError if the feed's
    file is invalid.
    """
    connection = connect()
    try:
        call("GET", f"{connection.storage_url}/_internal/healthcheck")
    except Unreachable as error:
        raise StackError(f"The local stack is down: {error}. Run `make up` first.") from error
    storage = connection.storage_client()
    bucket = storage.bucket(connection.landing_bucket)
    settings = feeds.read(feed)
    snapshot_id = snapshot_id or landing.next_snapshot_id(bucket, settings.landing.prefix)
    refused = landing.refused_deliveries(storage.bucket(connection.state_bucket), feed)
    table = next_snapshot.make(bucket, feed, snapshot_id, datetime.now(UTC).date(), refused)
    landed = landing.land(bucket, settings, snapshot_id, table)
    print(f"Landed {feed}, snapshot {landed.snapshot_id}{' again (a re-delivery)' if landed.is_redelivery else ''}")
    print(f"  {landed.row_count:,} rows of {landed.date_count} dates, {landed.byte_count:,} bytes")
    print(f"  gs://{connection.landing_bucket}/{landing.folder(settings.landing.prefix, landed.snapshot_id)}")
    print(f"  arrived {landed.arrived_at:%Y-%m-%d %H:%M:%S} UTC, marker generation {landed.marker_generation}")
    run_id = f"publish__{landed.snapshot_id}__{landed.marker_generation}"
    print(f"Watch it: {connection.airflow_url}/dags/{feed}_publish/runs/{run_id}")
    print(f"  login: {connection.airflow_user} / {connection.airflow_password}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.producer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    land_command = commands.add_parser("land", help="land one more snapshot")
    land_command.add_argument("--feed", choices=feeds.feed_names(), default=REALISTIC_FEED)
    land_command.add_argument(
        "--snapshot-id", type=_snapshot_id, help="default: above the newest; one that exists is delivered again"
    )
    options = parser.parse_args(arguments)
    try:
        land(options.feed, options.snapshot_id)
    except (StackError, ConfigurationError) as error:
        print(f"producer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
