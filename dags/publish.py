"""
### Publish: makes the deliveries that wait live, as one new generation of the table.

The watch DAG starts a run when deliveries arrive. The run publishes every delivery that waits; a later run whose
delivery is published already is skipped. **Trigger it by hand to replay**: give a snapshot id and a reason; a dry run
only shows what would happen. A replay that accepts a failed check first shows what the check found, and waits for your
approval (`approve_accepted`, Required Actions), which blocks no other run. If another run publishes meanwhile, trigger
the replay again.

Readers of the target table see the old generation until `swap_target`, and the new one from then on. A failure before
that leaves target as it is. `FEED_watch` repeats most failed runs. You may also clear the run from its first task, or
wait for the next delivery, whose run publishes this one too.

A good run skips `approve_accepted` and `resolve_accepted`, unless it accepts a failed check.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from dedup_clone.orchestration import publish as publish_run
from dedup_clone.orchestration.assets import landing_folder
from dedup_clone.orchestration.dag_factory import build_dags, feed_dag
from dedup_clone.orchestration.load_to_commit import load_to_commit, prune_state
from dedup_clone.orchestration.operation import AskOnceOperator
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.step import Step


def publish(setup: FeedSetup) -> DAG:
    with feed_dag(
        setup,
        "publish",
        __doc__,
        description=f"Publishes {setup.feed.feed}: {setup.feed.description}",
        params=publish_run.params(setup.feed),
    ) as dag:
        # The later tasks find the attempt's id in the result of a task called resolve_…, in every DAG: see FeedRun.
        # -- 1 resolve --- in: parameters, state   runs: worker    out: the attempt (lease acquired), or what to approve
        resolve = Step(task_id="resolve_publish", setup=setup, run=publish_run.resolve_publish)

        # -- 2 approve --- in: what checks found   runs: a person  out: approved; skipped if no failed check is accepted
        approve = AskOnceOperator(
            task_id="approve_accepted",
            setup=setup,
            question="publish although checks failed?",
            shown_by="resolve_publish",
        )

        # -- 3 resolve --- in: what was approved   runs: worker    out: the attempt (lease acquired); skipped like 2
        resolve_accepted = Step(task_id="resolve_accepted", setup=setup, run=publish_run.resolve_accepted)

        # -- 4 dedup ----- in: the attempt         runs: Spark     out: data folder, candidate manifest
        dedup = dedup_step(setup, "dedup_snapshot", trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)

        # -- 5 load, 6 check, 7 swap, 8 commit, and reconcile_failure: see load_to_commit
        steps = load_to_commit(setup, inlets=[landing_folder(setup)])

        # -- 9 prune ----- in: data folders        runs: worker    out: the deleted folders; two generations stay
        prune = Step(task_id="prune_state", setup=setup, run=prune_state)

        resolve >> approve >> resolve_accepted >> dedup >> steps.load
        resolve >> dedup
        steps.commit >> prune
        [resolve, resolve_accepted, dedup] >> steps.on_failure
    return dag


globals().update(build_dags(__file__, publish))
