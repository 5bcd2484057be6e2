"""
### Bootstrap: takes over an existing table's rows as the feed's first generation.

It is for a table that another process, such as a MERGE job, has maintained until now. A feed without such a table needs
no bootstrap: land its first snapshot. **Stop whatever writes the table**, then trigger this DAG by hand.
`show_existing` shows what would be exported, loaded, left out and billed, and fails if something prevents the
bootstrap. `approve_bootstrap` waits for your approval (Required Actions) and meanwhile blocks no other run. Then the
rows are exported (free), checked and written by the dedup job, loaded (free), compared with the table, and swapped in
by one statement. Until that statement, and after a failure, readers see the table as it is. Trigger a failed bootstrap
again: it starts from the beginning.

In a good run the task `reconcile_failure` is skipped: it runs after a failure only.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from dedup_clone.orchestration import bootstrap as operation
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags
from dedup_clone.orchestration.steps import feed_dag_arguments, load_to_commit
from dedup_clone.orchestration.task_runtime import RESOLVE_BOOTSTRAP, attempt_uri


def bootstrap(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("bootstrap"),
        description=f"Takes over an existing table as the first generation of {setup.feed.feed}",
        schedule=None,
        max_active_runs=2,  # one run may wait for approval while another one works; only one run holds the lease
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "bootstrap"],
        params=operation.params(),
        **feed_dag_arguments(setup, task_timeout=timedelta(hours=12)),  # a whole table is written
    ) as dag:
        # -- 1 show ------- in: the form           runs: worker    out: what would happen
        @task
        def show_existing(**context: Any) -> dict[str, str]:
            return operation.show(setup, Context(**context))

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve_bootstrap = AskOnceOperator(
            task_id="approve_bootstrap",
            subject=f"Take over the existing table as the first generation of {setup.feed.feed}?",
            body="{{ ti.xcom_pull(task_ids='show_existing')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        @task
        def resolve_bootstrap(**context: Any) -> str:
            return operation.resolve(setup, Context(**context))

        # -- 4 export ----- in: the table          runs: BigQuery  out: its files in state
        @task
        def export_existing(**context: Any) -> None:
            operation.export(setup, Context(**context))

        # -- 5 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
        dedup = dedup_operator(
            setup, task_id="dedup_existing", request_uri=attempt_uri(setup, task_id=RESOLVE_BOOTSTRAP)
        )

        # -- 6 load, 7 check, 8 swap, 9 commit, and reconcile_failure: see load_to_commit
        steps = load_to_commit(setup, swap_operator=operation.SwapExistingOperator, spark_task=dedup)

        # -- 10 clean ----- in: exported files     runs: worker    out: how many were deleted
        @task
        def delete_export(**context: Any) -> int:
            return operation.delete_export(setup, Context(**context))

        resolve, export = resolve_bootstrap(), export_existing()
        show_existing() >> approve_bootstrap >> resolve >> export >> dedup >> steps.load
        steps.commit >> delete_export()
        [resolve, export, dedup] >> steps.on_failure
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "bootstrap", bootstrap))
