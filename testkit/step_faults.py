"""Lets steps that run in this process meet small limits, a BigQuery that does not answer, or the end of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from typing import Any
from unittest.mock import Mock, patch

from google.api_core.exceptions import Forbidden, ServiceUnavailable

from dedup_clone.publish import load
from dedup_clone.warehouse import append_rows
from dedup_clone.warehouse.append_rows import RowAppender
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.jobs import Jobs
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.killed_writes import Killed
from testkit.runs import Run


@contextmanager
def small_limits(**limits: int) -> Iterator[None]:
    """Lower limits of the load step."""
    names: dict[str, tuple[Any, str]] = {
        "table_files": (load, "MAX_TABLE_FILES"),
        "uris_per_job": (load, "URIS_PER_JOB"),
        "loads_at_once": (load, "LOADS_AT_ONCE"),
    }
    with ExitStack() as patches:
        for name, value in limits.items():
            patches.enter_context(patch.object(*names[name], value))
        yield


def load_dates_of(run: Run, days: list[date]) -> list[float]:
    """Load single dates of a run's candidate. Returns the seconds of each pause between loads, which are left out."""
    pauses: list[float] = []
    candidate, manifest = load.read_candidate(run.world.services, run.plan.id)
    load.load_dates(run.world.services, run.plan, candidate, manifest, tuple(days), sleep=pauses.append)
    return pauses


@contextmanager
def queries_that_read(size: int) -> Iterator[None]:
    """Let dry runs say that queries read so many bytes."""
    with patch.object(Jobs, "dry_run_select_bytes", lambda jobs, configuration: size):
        yield


def policies_of(world: FeedOnStandIn, table: str, *, page_size: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The row access policies and the column tags that the product finds, in answers of this page size."""
    connection: Any = world.bigquery._connection
    ask = connection.api_request

    def ask_for_small_pages(**request: Any) -> Any:
        if request["method"] == "GET" and request["path"].endswith("/rowAccessPolicies"):
            request["query_params"] = {**request.get("query_params", {}), "pageSize": page_size}
        return ask(**request)

    with patch.object(connection, "api_request", ask_for_small_pages):
        found = world.services.warehouse.policies(table)
    return found.row_access, found.column_tags


class Away(ServiceUnavailable):
    """BigQuery does not answer."""


@contextmanager
def bigquery_away() -> Iterator[None]:
    """Let the steps get no answer from BigQuery about tables."""
    with patch.object(Warehouse, "table", Mock(side_effect=Away("away"))):  # type: ignore[no-untyped-call]
        yield


@contextmanager
def hidden_jobs(reason: str = "accessDenied") -> Iterator[None]:
    """Let BigQuery deny access to the jobs of another account."""
    denied = {"reason": reason, "message": "Access Denied: Job local-dev:US.load"}
    hidden = Forbidden("Access Denied", errors=[denied])  # type: ignore[no-untyped-call]
    with patch.object(Warehouse, "job", Mock(side_effect=hidden)):
        yield


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
