"""Builds one DAG family for every feed file; a bad file shows its own error and takes no other feed down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow.sdk import DAG, BaseOperator, Context, get_parsing_context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.folders import Folders, find_folders
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed

TAG = "dedup-clone"


def build_family(dags: Path, suffix: str, build: Callable[[FeedSetup], DAG]) -> dict[str, DAG]:
    """`build` for every feed below `dags/feeds`; workers get only the DAG that they are about to run.

    The DAGs must not register themselves: one whose building failed halfway would stand beside the DAG that tells why.
    """
    folders = find_folders(dags)
    wanted = get_parsing_context().dag_id
    family = {}
    for path in sorted(folders.feeds.glob("*.yaml")):
        dag_id = f"{path.stem}_{suffix}"
        if wanted in (None, dag_id):
            family[dag_id] = _build_one(path, folders, dag_id, build)
    return family


def _build_one(path: Path, folders: Folders, dag_id: str, build: Callable[[FeedSetup], DAG]) -> DAG:
    try:
        return build(FeedSetup(read_feed(path), read_deployment(folders.profiles), folders))
    except ConfigurationError as error:
        return _misconfigured(dag_id, str(error))


def _misconfigured(dag_id: str, error: str) -> DAG:
    """Stands where the feed's DAG would: says what is wrong on its page, in its task's log, and by failing."""
    with DAG(
        dag_id, schedule=None, tags=[TAG, "configuration error"], doc_md=f"**Not valid:**\n\n```\n{error}\n```"
    ) as dag:
        ShowConfigurationError(task_id="show_configuration_error", error=error)
    return dag


class ShowConfigurationError(BaseOperator):
    """Fails with the error of the feed file."""

    def __init__(self, *, error: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.error = error

    def execute(self, context: Context) -> None:
        raise ConfigurationError(self.error)
