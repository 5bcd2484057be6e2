"""Makes the DAGs: of each feed one of a file (watch, publish, rollback), or one DAG of a file for all feeds.

An invalid feed file affects only its own DAGs, which show the error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, Param, get_parsing_context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.retries import retry_arguments
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup, find_folders, read_feed_setup

TAG = "dedup-clone"
# Of the DAGs for all feeds. Many runs may wait for an approval; a feed's lease lets one run of the feed work at a time.
SHARED_ACTIVE_RUNS = 100
SHARED_SLA = timedelta(hours=1)  # by which their tasks are retried


def build_dags(file: str, build: Callable[[FeedSetup], DAG]) -> dict[str, DAG]:
    """Calls `build` for every feed file and returns the DAGs by their ids. `file`: the DAG file.

    A worker builds only the DAG of which it is about to run a task. Raises ConfigurationError if sql/ is missing.
    """
    dags, dag_name = Path(file).resolve().parent, Path(file).stem
    folders, requested = find_folders(dags), get_parsing_context().dag_id
    built = {}
    for feed_file in folders.feed_files:
        dag_id = f"{feed_file.stem}_{dag_name}"
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
        "execution_timeout": timedelta(hours=1),  # also of a Spark run
    }
    return DAG(
        setup.dag_id(name),
        doc_md=doc,
        tags=[TAG, setup.feed.feed, name],
        auto_register=False,  # otherwise Airflow would also pick up a DAG whose `build` failed halfway
        is_paused_upon_creation=False,
        schedule=schedule,
        **{"default_args": defaults, **arguments},
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
        **{"max_active_runs": SHARED_ACTIVE_RUNS, **arguments},
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
        tags=[TAG, "configuration error"],
        doc_md=f"**Not valid:**\n\n```\n{error}\n```",
    ) as dag:
        ConfigurationErrorOperator(task_id="show_configuration_error", error=error)
    return dag


class ConfigurationErrorOperator(BaseOperator):
    """Fails with the error of a feed file or of the deployment profile."""

    def __init__(self, *, error: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.error = error

    def execute(self, context: Context) -> None:
        raise ConfigurationError(self.error)
