"""
### Bootstrap: takes over an existing table as the feed's first generation.

For a table that something else has kept fresh, by MERGE for example; a feed without one just lands its first snapshot.
**Stop whatever writes the table**, then trigger this by hand. `show_existing` tells what would be exported, loaded,
left out and billed, and what is in the way (a **dry run** ends there); `approve_bootstrap` waits for you (Required
Actions) and holds nothing meanwhile. Then the rows are exported (free), judged and written by the dedup job, loaded
(free), compared with the table, and swapped in by one statement. Until then readers have the table as it is; whatever
fails before leaves it so. Trigger a failed bootstrap again: it begins anew.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Context, TriggerRule, task

from dedup_clone.orchestration import bootstrap_tasks as bootstrap_steps
from dedup_clone.orchestration import publish_tasks as steps
from dedup_clone.orchestration.bigquery_jobs import LoadStagingOperator
from dedup_clone.orchestration.bootstrap_form import bootstrap_params
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.families import TAG, build_family
from dedup_clone.orchestration.order_xcom import BOOTSTRAP_TASK, order_field
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.orchestration.runners.remote import stop_spark
from dedup_clone.orchestration.swap_job import swap_configuration
from dedup_clone.orchestration.target_dags import target_asset, target_dag_arguments


def bootstrap(setup: FeedSetup) -> DAG:
    target = target_asset(setup)
    with DAG(
        setup.bootstrap_dag_id,
        description=f"Takes over an existing table as the first generation of {setup.feed.feed}",
        schedule=None,
        max_active_runs=2,  # one may wait for approval while another is at work; the lease keeps them apart
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "bootstrap"],
        params=bootstrap_params(),
        **target_dag_arguments(setup, longest=timedelta(hours=12)),  # a whole table is written, once
    ) as dag:
        # -- 1 show ------- in: the form           runs: worker    out: what would happen; after a dry run nothing does
        show = bootstrap_steps.ShowExistingOperator(task_id=bootstrap_steps.SHOW_TASK, setup=setup)

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or all that follows is skipped
        approve_bootstrap = ApprovalOperator(
            task_id="approve_bootstrap",
            subject=f"Take over the existing table as the first generation of {setup.feed.feed}?",
            body="{{ ti.xcom_pull(task_ids='show_existing')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the order (lease taken)
        @task
        def resolve_bootstrap(**context: Any) -> dict[str, Any]:
            return bootstrap_steps.take_bootstrap_lease(setup, Context(**context))

        # -- 4 export ----- in: the table          runs: BigQuery  out: its files in state, the request
        @task
        def export_existing(**context: Any) -> None:
            bootstrap_steps.export_table(setup, Context(**context))

        # -- 7 check ------ in: staging, the table runs: worker    out: what may go live (verdicts kept)
        @task
        def check_staging(**context: Any) -> dict[str, Any]:
            return steps.check_staging(setup, Context(**context))

        # -- 9 commit ----- in: target, attempt    runs: worker    out: ledger record, CURRENT, Asset event
        @task(outlets=[target])
        def commit_generation(**context: Any) -> dict[str, Any]:
            return steps.commit_swap(setup, Context(**context), target)

        # -- 10 clean ----- in: exported files     runs: worker    out: how many were deleted
        @task
        def delete_export(**context: Any) -> int:
            return bootstrap_steps.delete_export(setup, Context(**context))

        # -- on failure --- in: the lease          runs: worker    out: committed when the swap happened, else freed
        @task(trigger_rule=TriggerRule.ONE_FAILED, retries=5)
        def settle_failure(**context: Any) -> None:
            steps.settle_failure(setup, Context(**context))
            stop_spark(dedup, Context(**context))

        order, export = resolve_bootstrap(), export_existing()
        # -- 5 dedup ------ in: request            runs: Spark     out: data folder, candidate manifest
        dedup = dedup_operator(
            setup,
            task_id="dedup_existing",
            request_uri=order_field("request_uri", task=BOOTSTRAP_TASK),
        )
        # -- 6 load ------- in: manifest's files   runs: BigQuery  out: staging rows; deferred; safe to retry
        load = LoadStagingOperator(task_id="load_staging", setup=setup)
        check = check_staging()
        # -- 8 swap ------- in: staging at T       runs: BigQuery  out: target, in one statement; safe to retry
        swap = bootstrap_steps.SwapExistingOperator(
            task_id="swap_target",
            setup=setup,
            step="swap",
            configuration=swap_configuration(setup.feed.feed, setup.names.target_table),
        )
        commit, clean = commit_generation(), delete_export()

        show >> approve_bootstrap >> order >> export >> dedup >> load >> check >> swap >> commit >> clean
        [order, export, dedup, load, check, swap, commit] >> settle_failure()
    return dag


globals().update(build_family(Path(__file__).resolve().parent, "bootstrap", bootstrap))
