"""
### Rebuild: writes the live table anew as its changed feed file declares it.

It is for changes that no publish makes: columns dropped, renamed or of another type, other keys or clustering. `make
plan` names them. Change and deploy the feed file first; publishes are refused from then on. Then trigger this DAG by
hand. `show_rebuild` shows what would change and what it costs; `approve_rebuild` waits for your approval (Required
Actions) and meanwhile blocks no other run. Then the rows are copied by one query (only if columns change), exported,
checked and written by the dedup job, loaded, compared with what was exported, and swapped in by one statement, under
the same name. Until that statement, and after a failure, readers see the table as it is. Trigger a failed rebuild
again: it starts from the beginning.

In a good run the task `reconcile_failure` is skipped: it runs after a failure only.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from dedup_clone.orchestration import rebuild as operation
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.load_to_commit import load_to_commit
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags, feed_dag_arguments
from dedup_clone.orchestration.step import Step


def rebuild(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("rebuild"),
        description=f"Writes the table of {setup.feed.feed} anew as its changed feed file declares it",
        schedule=None,
        max_active_runs=2,  # one run may wait for approval while another one works; only one run holds the lease
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "rebuild"],
        params=operation.params(),
        **feed_dag_arguments(setup, task_timeout=timedelta(hours=12)),  # a whole table is written
    ) as dag:
        # -- 1 show ------- in: the form, feed file runs: worker   out: what would change; the cost
        show_rebuild = Step(task_id="show_rebuild", setup=setup, run=operation.show)

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve_rebuild = AskOnceOperator(
            task_id="approve_rebuild",
            subject=f"Rebuild the table of {setup.feed.feed}?",
            body="{{ ti.xcom_pull(task_ids='show_rebuild')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        resolve_rebuild = Step(task_id="resolve_rebuild", setup=setup, run=operation.resolve)

        # -- 4 export ----- in: target             runs: BigQuery  out: copied rows, their files in state
        export_rebuilt = Step(task_id="export_rebuilt", setup=setup, run=operation.export)

        # -- 5 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
        dedup = dedup_step(setup, "dedup_rebuilt")

        # -- 6 prepare ---- in: candidate          runs: BigQuery  out: staging with the declared columns
        prepare_staging = Step(task_id="prepare_staging", setup=setup, run=operation.prepare)

        # -- 7 load, 8 check, 9 swap, 10 commit, and reconcile_failure: see load_to_commit
        steps = load_to_commit(setup, before_swap=operation.before_swap)

        # -- 11 clean ----- in: copy, exported files runs: worker  out: how many were deleted
        delete_copies = Step(task_id="delete_copies", setup=setup, run=operation.clean)

        show_rebuild >> approve_rebuild >> resolve_rebuild >> export_rebuilt >> dedup >> prepare_staging >> steps.load
        steps.commit >> delete_copies
        [resolve_rebuild, export_rebuilt, dedup, prepare_staging] >> steps.on_failure
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "rebuild", rebuild))
