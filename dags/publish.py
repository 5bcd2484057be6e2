"""
### Publish: makes one delivery live, from landing to a committed swap.

Started by the watch DAG for each delivery; all deliveries that wait are folded in, so that a later run may find its
own delivery published already and is skipped. **Trigger it by hand to replay**: give a snapshot id and a reason; a
dry run only tells what would happen. A replay that accepts a failed check waits for you before the swap
(`approve_accepted`, Required Actions), and for a delivery that arrives meanwhile it gives way.

Readers of the target table see the old generation until `swap_target`, and the new one from then on. Whatever fails
before that leaves target as it is; clear the run from its first task, or let the next delivery's run take over.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, TriggerRule, task

from dedup_clone.orchestration import publish_tasks as steps
from dedup_clone.orchestration.approve_operator import ApproveAcceptedOperator, CheckStagingOperator
from dedup_clone.orchestration.bigquery_jobs import AttemptJobOperator, LoadStagingOperator
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.deadlines import freshness_deadline
from dedup_clone.orchestration.families import TAG, build_family
from dedup_clone.orchestration.order_xcom import order_field
from dedup_clone.orchestration.publish_form import publish_params
from dedup_clone.orchestration.resolve_operator import ResolvePublishOperator
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.orchestration.runners.remote import stop_spark
from dedup_clone.orchestration.swap_job import swap_configuration
from dedup_clone.orchestration.target_dags import target_asset, target_dag_arguments


def publish(setup: FeedSetup) -> DAG:
    target = target_asset(setup)
    with DAG(
        setup.publish_dag_id,
        description=f"Publishes {setup.feed.feed}: {setup.feed.description}",
        schedule=None,
        max_active_runs=4,  # some may wait for approval while another is at work; the lease keeps them apart
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "publish"],
        params=publish_params(),
        deadline=freshness_deadline(setup),
        **target_dag_arguments(setup),
    ) as dag:
        # -- 7 commit ---- in: target, attempt     runs: worker    out: ledger record, CURRENT, Asset event
        @task(outlets=[target])
        def commit_generation(**context: Any) -> dict[str, Any]:
            return steps.commit_swap(setup, Context(**context), target)

        # -- 8 prune ----- in: data folders        runs: worker    out: what was deleted; two generations stay
        @task
        def prune_state() -> list[str]:
            return steps.prune_state(setup)

        # -- on failure -- in: the lease           runs: worker    out: committed when the swap happened, else freed
        @task(trigger_rule=TriggerRule.ONE_FAILED, retries=5)
        def settle_failure(**context: Any) -> None:
            steps.settle_failure(setup, Context(**context))
            stop_spark(dedup, Context(**context))

        # -- 1 resolve --- in: parameters, state   runs: worker    out: the order (lease taken, request written)
        order = ResolvePublishOperator(task_id="resolve_publish", setup=setup)
        # -- 2 dedup ----- in: request             runs: Spark     out: data folder, candidate manifest
        dedup = dedup_operator(
            setup,
            task_id="dedup_snapshot",
            request_uri=order_field("request_uri"),
        )
        # -- 3 load ------ in: manifest's files    runs: BigQuery  out: staging rows; deferred; safe to retry
        load = LoadStagingOperator(task_id="load_staging", setup=setup)
        # -- 4 check ----- in: staging, manifest   runs: worker    out: what may go live (verdicts kept)
        check = CheckStagingOperator(task_id="check_staging", setup=setup, approval="approve_accepted")
        # -- 5 approve --- in: accepted fails      runs: a person  out: approved; skipped where nothing was accepted
        approve = ApproveAcceptedOperator(
            task_id="approve_accepted",
            setup=setup,
            checked_by="check_staging",
            subject=f"Publish {setup.feed.feed} although checks failed?",
            response_timeout=timedelta(hours=1),
            retry_delay=timedelta(seconds=1),
        )
        # -- 6 swap ------ in: staging at T        runs: BigQuery  out: target, in one statement; safe to retry
        swap = AttemptJobOperator(
            task_id="swap_target",
            trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
            setup=setup,
            step="swap",
            configuration=swap_configuration(setup.feed.feed, setup.names.target_table),
        )
        commit, clean = commit_generation(), prune_state()

        order >> dedup >> load >> check >> approve >> swap >> commit >> clean
        check >> swap
        [order, dedup, load, check, approve, swap, commit] >> settle_failure()
    return dag


globals().update(build_family(Path(__file__).resolve().parent, "publish", publish))
