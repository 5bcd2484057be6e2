"""The producer's command line: `python -m devstack.producer land` lands one more snapshot in the local stack."""

import argparse
import sys

from dedup_clone.contract.delivery import INT64_MAX
from dedup_clone.contract.errors import ConfigurationError
from devstack.connection import Connection, connect
from devstack.http_calls import says_healthy
from devstack.producer import feeds, next_snapshot
from devstack.producer.landing import Landed
from devstack.stack.layout import StackError


def _snapshot_id(text: str) -> int:
    number = int(text)
    if not 1 <= number <= INT64_MAX:
        raise argparse.ArgumentTypeError(f"found [{number}], expected 1 to {INT64_MAX}")
    return number


def show(landed: Landed, connection: Connection) -> None:
    """Print what has landed and where its publish can be followed."""
    again = " again (a re-delivery)" if landed.is_redelivery else ""
    print(f"Landed {landed.feed}, snapshot {landed.delivery.snapshot_id}{again}")
    print(f"  {landed.row_count:,} rows of {landed.date_count} dates, {landed.byte_count:,} bytes")
    print(f"  gs://{connection.landing_bucket}/{landed.folder}")
    print(f"  arrived {landed.arrived_at:%Y-%m-%d %H:%M:%S} UTC, marker generation {landed.delivery.marker_generation}")
    print(f"Watch it: {connection.airflow_url}/dags/{landed.feed}_publish/runs/{landed.run_id}")
    print(f"  login: {connection.airflow_user} / {connection.airflow_password}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.producer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    land_command = commands.add_parser("land", help="land one more snapshot")
    land_command.add_argument("--feed", choices=feeds.feed_names(), default=feeds.REALISTIC_FEED)
    land_command.add_argument(
        "--snapshot-id", type=_snapshot_id, help="default: above the newest; one that exists is delivered again"
    )
    options = parser.parse_args(arguments)
    try:
        connection = connect()
        if not says_healthy(f"{connection.storage_url}/_internal/healthcheck"):
            raise StackError(f"The local stack is down: {connection.storage_url} does not answer. Run `make up` first.")
        show(next_snapshot.land(connection, options.feed, options.snapshot_id), connection)
    except (StackError, ConfigurationError) as error:
        print(f"producer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
