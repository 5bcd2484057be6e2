"""Builds one DAG per feed from a DAG file. An invalid feed file affects only its own DAGs, which show the error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow.sdk import DAG, BaseOperator, Context, get_parsing_context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders, read_feed_setup

TAG = "dedup-clone"


def build_dags(dags: Path, dag_name: str, build: Callable[[FeedSetup], DAG]) -> dict[str, DAG]:
    """Calls `build` for every feed file in `dags/feeds` and returns the DAGs by their ids.

    A worker builds only the DAG of which it is about to run a task. The DAGs need `auto_register=False`: otherwise
    Airflow would also pick up a DAG whose `build` failed halfway. Raises ConfigurationError if sql/ is missing.
    """
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
