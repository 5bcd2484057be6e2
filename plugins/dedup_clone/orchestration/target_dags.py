"""What the DAGs that change target have in common."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset

from dedup_clone.orchestration.connect import FeedSetup


def target_asset(setup: FeedSetup) -> Asset:
    """Target, as consumers' DAGs may wait for it."""
    names = setup.names
    return Asset(
        name=f"{names.dataset}.{names.target_table}",
        uri=f"bigquery://{names.project}/{names.dataset}/{names.target_table}",
    )


def target_dag_arguments(setup: FeedSetup, *, longest: timedelta = timedelta(hours=1)) -> dict[str, Any]:
    """Arguments of the DAG: started by a run or by hand only, statements from sql/, retries that outlast a restart.

    `longest`: how long a task may work.
    """
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "auto_register": False,
        "is_paused_upon_creation": False,
        "template_searchpath": [str(setup.folders.sql)],
        "user_defined_macros": {"names": setup.names},
        "default_args": {
            "owner": setup.feed.owner,
            "retries": 3,
            "retry_delay": timedelta(seconds=10),
            "execution_timeout": longest,
        },
    }
