"""
### Rollback: makes an earlier generation's content live again.

Trigger it by hand with a generation and a reason. `show_difference` waits until no other run is at work, then shows
what would change; `approve_rollback` waits for your approval (Required Actions) and meanwhile blocks no publish. After
the approval one statement swaps the content in, as a new generation. docs/operate.md says what becomes of deliveries,
and how to undo it.
"""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from dedup_clone.orchestration.dag_factory import build_dags, feed_dag
from dedup_clone.orchestration.operation import operation_tasks
from dedup_clone.orchestration.operation_forms import ROLLBACK, rollback_fields
from dedup_clone.orchestration.setup import FeedSetup


def rollback(setup: FeedSetup) -> DAG:
    with feed_dag(
        setup,
        "rollback",
        __doc__,
        description=f"Makes an earlier generation of {setup.feed.feed} live again",
        params=rollback_fields(),
    ) as dag:
        operation_tasks(
            setup,
            ROLLBACK,
            # -- 1 show ------- in: the form           runs: worker    out: what would change
            show="show_difference",
            # -- 2 approve ---- in: the difference     runs: a person  out: approved, or every later task is skipped
            approve="approve_rollback",
            question="roll back to generation {{ params.generation }}?",
            # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired), its candidate
            resolve="resolve_rollback",
            # -- 4 load, 5 check, 6 swap, 7 commit, and reconcile_failure: see load_to_commit
            # -- 8 end -------- in: the commit         runs: nowhere   out: the run's state
            # Airflow derives the state of a run from its last tasks. If reconcile_failure were the only last task, a
            # failed run would count as successful whenever reconcile_failure succeeds.
            last=EmptyOperator(task_id="end_rollback"),
        )
    return dag


globals().update(build_dags(__file__, rollback))
