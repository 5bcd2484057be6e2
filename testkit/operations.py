"""Runs what surrounds the feed's runs in this process: the content audit, the watchdog's view, approvals, recoveries.

Like testkit/runs.py, the other half of the seam, it knows which functions of the product these are; tests do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from dedup_clone.contract.erasure import parse_keys
from dedup_clone.contract.table import TableContract
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.freshness.feed_state import FeedState, PendingJob
from dedup_clone.freshness.read_feed_state import read_feed_state
from dedup_clone.freshness.verdict import write_verdict
from dedup_clone.operations.erase import key_text
from dedup_clone.operations.feed_plan import FeedPlan
from dedup_clone.operations.lost_records import carry_out, plan_recovery
from dedup_clone.orchestration import content_audit, step
from dedup_clone.orchestration.watchdog.feed_check import describe_feed_file
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.page.feed_view import page_view
from dedup_clone.publish.declared_form import approve_retention
from dedup_clone.warehouse import append_rows
from dedup_clone.warehouse.append_rows import RowAppender
from dedup_clone.warehouse.jobs import Jobs
from dedup_clone.warehouse.row_sql import row_text
from testkit.feed_on_stand_in import FeedOnStandIn


def audit(world: FeedOnStandIn, day: str | None = None, *, run_id: str = "audit") -> list[tuple[str, int, str]]:
    """Run the task of the content audit DAG. Returns date, generation and outcome of each partition that it took.

    Raises what the task raises.
    """
    setup: Any = None  # the task uses it only to open the services
    context: Any = {"dag_run": SimpleNamespace(run_id=run_id), "params": {"date": day}}
    with patch.object(step, "open_feed_services", lambda _: world.services):
        records = content_audit.audit(setup, context)
    return [(found["date"], found["generation"], found["outcome"]) for found in records]


def incidents(world: FeedOnStandIn) -> list[Any]:
    """The incidents that the watchdog finds now."""
    return list(find_incidents(world.services.now(), feed_state(world)))


def incident_names(world: FeedOnStandIn) -> list[str]:
    return [incident.name for incident in incidents(world)]


def pending_job(world: FeedOnStandIn) -> PendingJob | None:
    """The BigQuery job of the feed that the watchdog sees waiting for its start."""
    return feed_state(world).pending_job


def waits_for_statement(world: FeedOnStandIn) -> bool:
    """Whether the watchdog sees that a DML statement of the feed waits in BigQuery's queue."""
    job = pending_job(world)
    return job is not None and job.is_statement


def feed_state(world: FeedOnStandIn) -> FeedState:
    """What the watchdog reads of the feed now, without what only Airflow knows."""
    return read_feed_state(
        world.services,
        watch_dag=None,
        publish_dag=None,
        find_failed_run=lambda waiting: None,
        check_interval=timedelta(minutes=5),
    )


def page(world: FeedOnStandIn) -> dict[str, Any]:
    """What the page shows of the feed after a check by the watchdog."""
    now, file = world.services.now(), describe_feed_file(world.services, reads_bigquery=True)
    write_verdict(world.services.store, replace(evaluate(now, feed_state(world)), feed_file=file))
    records = FeedReader(lambda: world.services.store).read(world.feed.feed)
    assert records is not None
    return page_view(records, now)


def recover_after(world: FeedOnStandIn, change: Callable[[], Any]) -> None:
    """Carry out a plan to restore records that was made before the change."""
    plan = plan_recovery(world.services)
    change()
    carry_out(world.services, plan)


def approve_shorter_retention(world: FeedOnStandIn) -> None:
    """Approve that readers lose old dates, as `make plan` with APPLY=1 does."""
    approve_retention(world.services)


def feed_plan(feed: str, generation: int, *problems: str) -> FeedPlan:
    """A plan for a feed, as `make deploy` shows it."""
    return FeedPlan(feed, f"generation {generation} is live", problems=problems)


def key_and_its_sql(keys: str, table: TableContract) -> tuple[str, str]:
    """The text of the only key of a CSV text, from which its hash is made, and the SQL expression of the same text."""
    parsed = parse_keys(keys, table)
    return key_text(parsed, parsed.rows[0]), row_text(replace(table, columns=parsed.columns))


@contextmanager
def after_first_query(work: Callable[[], Any]) -> Iterator[list[str]]:
    """Do something once the rows of the first query were read. Yields the ids of the jobs whose rows were read."""
    read, seen = Jobs.rows, list[str]()

    def rows(jobs: Jobs, job_id: str) -> Any:
        found = read(jobs, job_id)
        seen.append(job_id)
        if len(seen) == 1:
            work()
        return found

    with patch.object(Jobs, "rows", rows):
        yield seen


class Killed(BaseException):
    """Stands for the end of the process. It is no Exception, so that no handler catches it."""


@contextmanager
def writer_killed_after(rows: int) -> Iterator[None]:
    """Kill the process that streams rows after so many, once they are sent; at the latest after all. Raises Killed."""
    append, finish = RowAppender.append, RowAppender.finish

    def dies(appender: RowAppender, *arguments: Any) -> None:
        append(appender, *arguments)
        if appender.rows >= rows:
            finish(appender)
            raise Killed

    def dies_at_the_end(appender: RowAppender) -> None:
        finish(appender)
        raise Killed

    with patch.object(RowAppender, "append", dies), patch.object(RowAppender, "finish", dies_at_the_end):
        yield


@contextmanager
def one_row_a_request() -> Iterator[None]:
    """Send streamed rows one by one."""
    with patch.object(append_rows, "MAX_REQUEST_BYTES", 1):
        yield
