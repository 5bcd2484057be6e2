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

from airflow.sdk import DAG

from dedup_clone.orchestration import bootstrap as operation
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.load_to_commit import load_to_commit
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags, feed_dag_arguments
from dedup_clone.orchestration.step import Step


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
        show_existing = Step(task_id="show_existing", setup=setup, run=operation.show)

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve_bootstrap = AskOnceOperator(
            task_id="approve_bootstrap",
            subject=f"Take over the existing table as the first generation of {setup.feed.feed}?",
            body="{{ ti.xcom_pull(task_ids='show_existing')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        resolve_bootstrap = Step(task_id="resolve_bootstrap", setup=setup, run=operation.resolve)

        # -- 4 export ----- in: the table          runs: BigQuery  out: its files in state
        export_existing = Step(task_id="export_existing", setup=setup, run=operation.export)

        # -- 5 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
        dedup = dedup_step(setup, "dedup_existing")

        # -- 6 load, 7 check, 8 swap, 9 commit, and reconcile_failure: see load_to_commit
        steps = load_to_commit(setup, before_swap=operation.require_unchanged_table)

        # -- 10 clean ----- in: exported files     runs: worker    out: how many were deleted
        delete_export = Step(task_id="delete_export", setup=setup, run=operation.delete_export)

        show_existing >> approve_bootstrap >> resolve_bootstrap >> export_existing >> dedup >> steps.load
        steps.commit >> delete_export
        [resolve_bootstrap, export_existing, dedup] >> steps.on_failure
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "bootstrap", bootstrap))
