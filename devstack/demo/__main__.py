"""Runs the demo on the local stack, which must be up: `python -m devstack.demo`.

Exits with 0 only if the published tables equal those computed independently from the landed files.
"""

import sys
import time
from datetime import UTC, datetime

from devstack.connection import Connection, connect
from devstack.demo import terminal_output
from devstack.demo.airflow_api import AirflowApi, DemoError
from devstack.demo.delivery_progress import publish_dag_id, watch_dag_id
from devstack.demo.demo_run import DemoRun, FeedSequence
from devstack.demo.example_table import compared_rows
from devstack.demo.table_comparison import compare, expected_table, read_target
from devstack.producer.feeds import EXAMPLE_FEED, FEEDS
from devstack.stack.names_and_logins import PAGE
from devstack.stack.stack_errors import StackError

DAGS_TIMEOUT_S = 180.0
POLL_INTERVAL_S = 0.5


def log(line: str = "") -> None:
    print(line, flush=True)


def wait_for_dags(api: AirflowApi, progress: terminal_output.Progress) -> None:
    """Wait until Airflow has read the watch and publish DAGs of both feeds.

    Raises DemoError if one of them is paused, or is still missing after DAGS_TIMEOUT_S.
    """
    missing = [dag for feed in FEEDS for dag in (watch_dag_id(feed), publish_dag_id(feed))]
    deadline = time.monotonic() + DAGS_TIMEOUT_S
    while missing:
        paused = {dag: api.is_paused(dag) for dag in missing}
        if stopped := [dag for dag, is_paused in paused.items() if is_paused]:
            raise DemoError(f"DAGs [{', '.join(stopped)}] are paused: unpause them in Airflow, then try again.")
        missing = [dag for dag, is_paused in paused.items() if is_paused is None]
        if missing and time.monotonic() > deadline:
            errors = "\n".join(f"    {error}" for error in api.import_errors()) or "    (no import errors)"
            raise DemoError(f"Airflow does not know the DAGs [{', '.join(missing)}]. Its import errors:\n{errors}")
        if missing:
            progress.update(f"Airflow reads the DAGs: {len(missing)} to go")
            time.sleep(POLL_INTERVAL_S)
    progress.clear()


def show_example(sequence: FeedSequence) -> None:
    """Print what its last publish has done to the worked example's table."""
    before, after = sequence.tables[-2:]
    snapshot_id = sequence.publishes[-1].snapshot_id
    log(f"\n{EXAMPLE_FEED} after (snapshot {snapshot_id} published):")
    for line in compared_rows(before, after, snapshot_id):
        log(line)


def compare_tables(connection: Connection, demo_run: DemoRun) -> bool:
    """Compare each published table with the one computed from the landed files. Returns whether all are equal."""
    all_equal = True
    log("\nPublished tables against an independent computation from the landed files:")
    for feed in FEEDS:
        started = time.monotonic()
        expected = expected_table(demo_run.landing_bucket, feed, demo_run.refused(feed))
        result = compare(read_target(connection, feed), expected)
        word = "equal" if result.is_equal else "DIFFERENT"
        log(f"  {feed}: {word}, {result.published_rows:,} rows ({time.monotonic() - started:.1f} s)")
        if not result.is_equal:
            log(f"    expected {result.expected_rows:,} rows; {result.too_many:,} too many, {result.too_few:,} too few")
            for sample in result.samples:
                log(f"    {sample}")
        all_equal = all_equal and result.is_equal
    return all_equal


def run() -> bool:
    """Run the demo. Returns whether the published tables are right."""
    started = time.monotonic()
    connection = connect()
    storage = connection.storage_client()
    api = AirflowApi(connection)
    progress = terminal_output.Progress()
    log(f"Demo on {connection.airflow_url}, project {connection.project}")
    wait_for_dags(api, progress)
    demo_run = DemoRun(
        connection=connection,
        api=api,
        landing_bucket=storage.bucket(connection.landing_bucket),
        state_bucket=storage.bucket(connection.state_bucket),
        day=datetime.now(UTC).date(),
        log=log,
    )
    sequences = demo_run.sequences()
    demo_run.run(sequences, progress)
    show_example(next(sequence for sequence in sequences if sequence.feed == EXAMPLE_FEED))
    log("\nPublished (kept: rows that the snapshot lacks; below each: seconds by phase, see docs/costs-and-limits.md):")
    for line in terminal_output.publishes([entry for sequence in sequences for entry in sequence.publishes]):
        log(line)
    all_equal = compare_tables(connection, demo_run)
    log(f"\nThe demo took {time.monotonic() - started:.0f} s. The stack stays up until `make down`.")
    login = f"login: {connection.airflow_user} / {connection.airflow_password}"
    log(f"  Snapshots  {connection.airflow_url}/{PAGE}   {login}   is each table fresh, what has each publish changed")
    log(f"  Airflow    {connection.airflow_url}   the same login")
    log(f"  Tables     {connection.bigquery_url}   {connection.project}.{connection.dataset}.* in BigQuery's stand-in")
    log(f"  Files      {connection.storage_url}   gs://{connection.landing_bucket}, gs://{connection.state_bucket}")
    log("  One more snapshot: `make land`. Break and roll back a table, use bq or DuckDB: docs/tutorial.md")
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
