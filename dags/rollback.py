"""
### Rollback: makes an earlier generation's content live again.

Trigger it by hand with a generation and a reason. `show_difference` tells what would change; `approve_rollback` waits
for you (Required Actions) and holds nothing meanwhile; then the content is swapped in with one statement, under a new
generation. Deliveries that it takes out stay out until somebody replays them, or until they are delivered again: the
next arrival builds on the restored rows. To go forward again, roll back to the generation that you left.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Context, TriggerRule, task

from dedup_clone.orchestration import publish_tasks as steps
from dedup_clone.orchestration import rollback_tasks as rollback_steps
from dedup_clone.orchestration.bigquery_jobs import AttemptJobOperator
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.families import TAG, build_family
from dedup_clone.orchestration.rollback_form import rollback_params
from dedup_clone.orchestration.swap_job import swap_configuration
from dedup_clone.orchestration.target_dags import target_asset, target_dag_arguments


def rollback(setup: FeedSetup) -> DAG:
    target = target_asset(setup)
    with DAG(
        setup.rollback_dag_id,
        description=f"Makes an earlier generation of {setup.feed.feed} live again",
        schedule=None,
        max_active_runs=4,  # one may wait for approval while another is at work; the lease keeps them apart
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "rollback"],
        params=rollback_params(),
        **target_dag_arguments(setup),
    ) as dag:
        # -- 1 difference - in: the form           runs: worker    out: what would change
        @task
        def show_difference(**context: Any) -> dict[str, Any]:
            return rollback_steps.show_difference(setup, Context(**context))

        # -- 2 approve ---- in: the difference     runs: a person  out: approved, or all that follows is skipped
        approve_rollback = ApprovalOperator(
            task_id="approve_rollback",
            subject=f"Roll {setup.feed.feed} back to generation {{{{ params.generation }}}}?",
            body="{{ ti.xcom_pull(task_ids='show_difference')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 resolve ---- in: the form           runs: worker    out: the order (lease taken, manifest written)
        @task
        def resolve_rollback(**context: Any) -> dict[str, Any]:
            return rollback_steps.take_rollback_lease(setup, Context(**context))

        # -- 5 check ------ in: staging, manifest  runs: worker    out: what may go live
        @task
        def check_staging(**context: Any) -> dict[str, Any]:
            return steps.check_staging(setup, Context(**context))

        # -- 7 commit ----- in: target, attempt    runs: worker    out: ledger record, CURRENT, Asset event
        @task(outlets=[target])
        def commit_generation(**context: Any) -> dict[str, Any]:
            return steps.commit_swap(setup, Context(**context), target)

        # -- on failure --- in: the lease          runs: worker    out: committed when the swap happened, else freed
        @task(trigger_rule=TriggerRule.ONE_FAILED, retries=5)
        def settle_failure(**context: Any) -> None:
            steps.settle_failure(setup, Context(**context))

        order = resolve_rollback()
        # -- 4 load ------- in: manifest's files   runs: BigQuery  out: staging rows; nothing within time travel
        load = rollback_steps.RestoreStagingOperator(task_id="load_staging", setup=setup)
        check = check_staging()
        # -- 6 swap ------- in: staging at T       runs: BigQuery  out: target, in one statement
        swap = AttemptJobOperator(
            task_id="swap_target",
            setup=setup,
            step="swap",
            configuration=swap_configuration(setup.feed.feed, setup.names.target_table),
        )
        commit = commit_generation()

        # -- 8 end -------- in: the commit         runs: nowhere   out: the run's state. Airflow takes it from the last
        # tasks alone, and a failure that was settled is a success of settle_failure.
        end_rollback = EmptyOperator(task_id="end_rollback")

        show_difference() >> approve_rollback >> order >> load >> check >> swap >> commit >> end_rollback
        [order, load, check, swap, commit] >> settle_failure()
    return dag


globals().update(build_family(Path(__file__).resolve().parent, "rollback", rollback))
