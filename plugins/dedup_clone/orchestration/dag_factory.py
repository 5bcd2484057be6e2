"""Makes the DAGs, and decides after which errors their tasks are retried, and for how long.

An invalid feed file affects only its own DAGs, which show the error.

Exhausted quotas, rate limits, missing capacity, errors of the service and lost connections pass by themselves.
A task that fails with one of these, or with an error of an unknown kind, is retried with growing, random delays, within
half of the freshness SLA. After an error that every retry would meet again, such as a failed check, the task fails at
once. Tasks need not know: Airflow's worker asks the DAG's retry policy after each error of a task. The watching DAG and
the watchdog replace these rules, because their next run does what a failed one did not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, Param, RetryDecision, RetryPolicy, get_parsing_context, task

from dedup_clone.contract.errors import ConfigurationError, JobFailed, PermanentError, SparkRunFailed
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup, find_folders, read_feed_setup

RETRIES = 9
MOST_SPARK_TRIES = 4  # a Spark run may fail because machines were lost; after so many tries that is not the reason
# Reasons of errors for which a retry does not help (BigQuery's page "Error messages"; the last line: Cloud Storage's
# page "HTTP status and error codes for JSON").
_PERMANENT_REASONS = frozenset(
    {
        *("accessDenied", "badRequest", "billingNotEnabled", "billingTierLimitExceeded", "bytesBilledLimitExceeded"),
        *("invalid", "invalidQuery", "invalidUser", "notFound", "notImplemented"),
        *("resourcesExceeded", "responseTooLarge"),
        *("forbidden", "insufficientPermissions", "accountDisabled", "retentionPolicyNotMet"),
    }
)
# Messages of errors that pass although their reason is permanent: BigQuery reports `invalidQuery` when statements
# change one table at the same moment, `resourcesExceeded` when too many statements wait for one table.
_CONCURRENT_DML = ("could not serialize access", "too many dml statements outstanding")
# Statuses from 400 to 499 after which a retry can succeed.
_TRANSIENT_STATUS = frozenset({401, 408, 409, 412, 425, 429, 499})  # 499: a gRPC call that was cut off


def retry_arguments(sla: timedelta) -> dict[str, Any]:
    """Arguments of tasks whose delays before retries add up to at most half of the freshness SLA.

    Each delay is random, between a base and twice that base. The base doubles with each retry.
    """
    return {
        "retries": RETRIES,
        "retry_delay": max(sla / (40 * RETRIES), timedelta(seconds=1)),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": max(sla / (2 * RETRIES), timedelta(seconds=1)),
        "retry_policy": RetryWhatMayHelp(),
    }


class RetryWhatMayHelp(RetryPolicy):
    """Fails a task at once after an error for which no retry can help, and after the last try of a Spark run."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        # Airflow counts tries on when a task is cleared, and gives it as many again.
        tries = try_number if context is None else (context["task"].retries or 0) - (max_tries - try_number)
        is_last_spark_run = isinstance(exception, SparkRunFailed) and tries >= MOST_SPARK_TRIES
        if is_permanent(exception) or is_last_spark_run:
            return RetryDecision.fail("a retry would fail the same way")
        return RetryDecision.default()


def is_permanent(error: BaseException) -> bool:
    """Whether a retry would fail the same way. An error of an unknown kind counts as transient."""
    from google.api_core.exceptions import GoogleAPICallError

    if isinstance(error, JobFailed):
        return _is_permanent_reason(error.reason, error.message)
    if isinstance(error, GoogleAPICallError):
        reasons = [str(item.get("reason")) for item in error.errors if isinstance(item, dict) and item.get("reason")]
        if reasons:
            return any(_is_permanent_reason(reason, error.message) for reason in reasons)
        return error.code is not None and 400 <= error.code < 500 and error.code not in _TRANSIENT_STATUS
    return isinstance(error, PermanentError)


def _is_permanent_reason(reason: str | None, message: str) -> bool:
    """Whether a retry would fail the same way after an error of a Google API with this reason and message."""
    return reason in _PERMANENT_REASONS and not any(text in message.lower() for text in _CONCURRENT_DML)


TAG = "dedup-clone"
# Many runs of a DAG may wait for an approval. The lease of a feed lets one run of the feed work at a time.
ACTIVE_RUNS = 100
SHARED_SLA = timedelta(hours=1)  # by which the tasks of the DAGs for all feeds are retried


def build_dags(file: str, build: Callable[[FeedSetup], DAG]) -> dict[str, DAG]:
    """Calls `build` for every feed file and returns the DAGs by their ids. `file`: the DAG file.

    A worker builds only the DAG of which it is about to run a task. Raises ConfigurationError if sql/ is missing.
    """
    dags, dag_name = Path(file).resolve().parent, Path(file).stem
    folders, requested = find_folders(dags), get_parsing_context().dag_id
    built = {}
    for feed_file in folders.feed_files:
        # Airflow refuses the name of a file such as `orders (copy).yaml`, and all DAGs of the DAG file with it.
        dag_id = re.sub(r"[^\w.-]", "-", f"{feed_file.stem}_{dag_name}")
        if requested in (None, dag_id):
            try:
                built[dag_id] = build(read_feed_setup(feed_file, folders))
            except ConfigurationError as error:
                built[dag_id] = _error_dag(dag_id, str(error))
    return built


def feed_dag(setup: FeedSetup, name: str, doc: str | None, *, schedule: str | None = None, **arguments: Any) -> DAG:
    """A DAG of one feed."""
    defaults = {
        "owner": setup.feed.owner,
        **retry_arguments(timedelta(minutes=setup.feed.freshness.sla_minutes)),
        "execution_timeout": timedelta(hours=1),  # a large Spark run has longer (runners/dedup.py)
    }
    return DAG(
        setup.dag_id(name),
        doc_md=doc,
        tags=[TAG, setup.feed.feed, name],
        auto_register=False,  # otherwise Airflow would also pick up a DAG whose `build` failed halfway
        is_paused_upon_creation=False,
        schedule=schedule,
        **{"default_args": defaults, "max_active_runs": ACTIVE_RUNS, **arguments},
    )


def shared_dag(name: str, doc: str | None, *, schedule: str | None = None, **arguments: Any) -> DAG:
    """A DAG that serves all feeds. Airflow reads its file only if it has the word `airflow`, for example in `doc`."""
    defaults = {
        "owner": TAG,
        **retry_arguments(SHARED_SLA),
        "execution_timeout": timedelta(hours=12),  # a whole table may be read or written
    }
    return DAG(
        f"dedup_clone_{name}",
        doc_md=doc,
        tags=[TAG, name],
        is_paused_upon_creation=False,
        schedule=schedule,
        default_args=defaults,
        **{"max_active_runs": ACTIVE_RUNS, **arguments},
    )


def feed_of_form(file: str) -> tuple[FeedOfForm, Param]:
    """The feed that the form names, and the form's field. `file`: the DAG file."""
    setup = FeedOfForm(find_folders(Path(file).resolve().parent))
    return setup, Param("", type="string", enum=setup.names, title="Feed", description="The feed to work on.")


def _error_dag(dag_id: str, error: str) -> DAG:
    """The DAG in place of one whose feed file or profile is invalid. Its page shows the error, its task raises it."""
    with DAG(
        dag_id,
        description=f"INVALID, does nothing: {' '.join(error.split())}",
        schedule=None,
        is_paused_upon_creation=False,  # else the DAG would stay paused once the file is valid
        tags=[TAG, "configuration error"],
        doc_md=f"**Not valid:**\n\n```\n{error}\n```",
    ) as dag:

        @task
        def show_configuration_error() -> None:
            raise ConfigurationError(error)

        show_configuration_error()
    return dag
