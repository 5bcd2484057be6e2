"""
### Erase: removes the rows of named keys from everything that this project keeps, for example at a person's request.

Upload a CSV file of keys to the folder `to_erase/` of the feed in the state bucket, then trigger this DAG with the
file's name. `show_erasure` shows how many rows the keys have; `approve_erasure` waits for your approval (Required
Actions) and meanwhile blocks no publish. After the approval a new generation without these rows is published, and the
files of all earlier generations are deleted. Later and replayed snapshots do not bring the keys back. No generation
from before the erasure can be restored by a rollback.

In a good run the task `reconcile_failure` is skipped: it runs after a failure only.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from dedup_clone.orchestration import erase as operation
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags
from dedup_clone.orchestration.steps import feed_dag_arguments, load_to_commit
from dedup_clone.orchestration.task_runtime import RESOLVE_ERASURE, attempt_uri


def erase(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("erase"),
        description=f"Removes the rows of named keys of {setup.feed.feed} for good",
        schedule=None,
        max_active_runs=4,  # some runs may wait for approval while another one works; only one run holds the lease
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "erase"],
        params=operation.params(),
        **feed_dag_arguments(setup, task_timeout=timedelta(hours=12)),  # the keys of a whole table are read
    ) as dag:
        # -- 1 show ------- in: the form, the keys runs: worker    out: what would be deleted
        @task
        def show_erasure(**context: Any) -> dict[str, Any]:
            return operation.show(setup, Context(**context))

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve_erasure = AskOnceOperator(
            task_id="approve_erasure",
            subject=f"Erase keys of {setup.feed.feed} for good?",
            body="{{ ti.xcom_pull(task_ids='show_erasure')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        @task
        def resolve_erasure(**context: Any) -> str:
            return operation.resolve(setup, Context(**context))

        # -- 4 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
        dedup = dedup_operator(setup, task_id="erase_rows", request_uri=attempt_uri(setup, task_id=RESOLVE_ERASURE))

        # -- 5 load, 6 check, 7 swap, 8 commit, and reconcile_failure: see load_to_commit
        steps = load_to_commit(setup, spark_task=dedup)

        # -- 9 delete ----- in: state              runs: worker    out: the deleted folders (the file of keys goes too)
        @task
        def delete_leftovers(**context: Any) -> list[str]:
            return operation.clean(setup, Context(**context))

        resolve = resolve_erasure()
        show_erasure() >> approve_erasure >> resolve >> dedup >> steps.load
        steps.commit >> delete_leftovers()
        [resolve, dedup] >> steps.on_failure
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "erase", erase))
