"""`python -m devstack.demo`: the demo on the local stack, which must be up. Exits 0 only if the tables are right."""

import argparse
import sys
import time
from datetime import UTC, datetime

from devstack.connection import Connection, connect
from devstack.demo import independent, kinds, published, show
from devstack.demo.airflow_api import AirflowApi
from devstack.demo.compare import compare
from devstack.demo.course import Course, Lane
from devstack.demo.errors import DemoFailed
from devstack.demo.follow import publish_dag, watch_dag
from devstack.producer.schema import EXAMPLE_FEED, FEEDS
from devstack.stack.errors import StackError

DAGS_PATIENCE_S = 180.0
LOOK_EVERY_S = 0.5


def say(line: str = "") -> None:
    print(line, flush=True)


def wait_for_dags(api: AirflowApi, progress: show.Progress) -> None:
    """Until Airflow has read all DAGs of both feeds, and none of them is paused."""
    missing = [dag for feed in FEEDS for dag in (watch_dag(feed), publish_dag(feed))]
    give_up = time.monotonic() + DAGS_PATIENCE_S
    while missing:
        paused = {dag: api.is_paused(dag) for dag in missing}
        if stopped := [dag for dag, is_paused in paused.items() if is_paused]:
            raise DemoFailed(f"DAGs [{', '.join(stopped)}] are paused: unpause them in Airflow, then try again.")
        missing = [dag for dag, is_paused in paused.items() if is_paused is None]
        if missing and time.monotonic() > give_up:
            errors = "\n".join(f"    {error}" for error in api.import_errors()) or "    (no import errors)"
            raise DemoFailed(f"Airflow does not know the DAGs [{', '.join(missing)}]. Its import errors:\n{errors}")
        if missing:
            progress.update(f"Airflow reads the DAGs: {len(missing)} to go")
            time.sleep(LOOK_EVERY_S)
    progress.clear()


def show_example(lane: Lane) -> None:
    before, after = lane.tables[-2:]
    first, second = lane.publishes[-2:]
    say(f"\n{EXAMPLE_FEED} before (snapshot {first.snapshot_id} published):")
    for line in show.plain_rows(kinds.rows(before)):
        say(line)
    say(f"\n{EXAMPLE_FEED} after (snapshot {second.snapshot_id} published):")
    for line in show.marked_rows(kinds.mark(before, after, second.snapshot_id)):
        say(line)


def judge(connection: Connection, course: Course) -> bool:
    """Compares each published table, whole, with an independent computation from the landed files."""
    all_equal = True
    say("\nPublished tables against an independent computation from the landed files:")
    for feed in FEEDS:
        started = time.monotonic()
        result = compare(published.read(connection, feed), independent.expected_table(course.landing_bucket, feed))
        word = "equal" if result.is_equal else "DIFFERENT"
        say(f"  {feed}: {word}, {result.published_rows:,} rows ({time.monotonic() - started:.1f} s)")
        if not result.is_equal:
            say(f"    expected {result.expected_rows:,} rows; {result.too_many:,} too many, {result.too_few:,} too few")
            for sample in result.samples:
                say(f"    {sample}")
        all_equal = all_equal and result.is_equal
    return all_equal


def run(one_by_one: bool) -> bool:
    """Whether the published tables are right."""
    started = time.monotonic()
    connection = connect()
    storage = connection.storage_client()
    api = AirflowApi(connection)
    progress = show.Progress()
    say(f"Demo on {connection.airflow_url}, project {connection.project}")
    wait_for_dags(api, progress)
    course = Course(
        connection=connection,
        api=api,
        landing_bucket=storage.bucket(connection.landing_bucket),
        state_bucket=storage.bucket(connection.state_bucket),
        day=datetime.now(UTC).date(),
        say=say,
    )
    lanes = course.lanes()
    for together in [[lane] for lane in lanes] if one_by_one else [lanes]:
        course.run(together, progress)
    show_example(next(lane for lane in lanes if lane.feed == EXAMPLE_FEED))
    say("\nPublished (below each: seconds by phase):")
    for line in show.publishes([one for lane in lanes for one in lane.publishes]):
        say(line)
    all_equal = judge(connection, course)
    say(f"\nThe demo took {time.monotonic() - started:.0f} s. The stack stays up until `make down`.")
    say(f"  Airflow    {connection.airflow_url}   login: {connection.airflow_user} / {connection.airflow_password}")
    say(f"  BigQuery   {connection.bigquery_url}   tables: {connection.project}.{connection.dataset}.*")
    say(f"  Storage    {connection.storage_url}")
    say("  One more snapshot: `make land`")
    return all_equal


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.demo", description=__doc__)
    parser.add_argument("--one-by-one", action="store_true", help="one feed after the other: needs less memory")
    options = parser.parse_args(arguments)
    try:
        return 0 if run(options.one_by_one) else 1
    except (DemoFailed, StackError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; the stack is still up.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
