"""
### Rebuild: writes the live table of a feed anew as its changed feed file declares it.

It is for changes that no publish makes: columns dropped, renamed or of another type, other keys or clustering. `make
plan` names them. Change and deploy the feed file first; publishes are refused from then on. Then trigger this DAG by
hand with the feed. `show_rebuild` shows what would change and what it costs; `approve_rebuild` waits for your approval
(Required Actions in Airflow) and meanwhile blocks no other run. Then the rows are copied by one query (only if columns
change), exported, checked and written by the dedup job, loaded, compared with what was exported, and swapped in by one
statement, under the same name. Until that statement, and after a failure, readers see the table as it is. Trigger a
failed rebuild again: it starts from the beginning.
"""

from __future__ import annotations

from dedup_clone.operations import rebuild, takeover
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.operation import operation_tasks
from dedup_clone.orchestration.operation_forms import REBUILD, rebuild_fields
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "rebuild",
    __doc__,
    description="Writes the table of a feed anew as its changed feed file declares it",
    params={"feed": feed_field, **rebuild_fields()},
) as dag:
    operation_tasks(
        setup,
        REBUILD,
        # -- 1 show ------- in: the form, feed file runs: worker   out: what would change; the cost
        show="show_rebuild",
        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve="approve_rebuild",
        question="rebuild the table?",
        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        resolve="resolve_rebuild",
        before_load=[
            # -- 4 export ----- in: target             runs: BigQuery  out: copied rows, their files in state
            Step(task_id="export_rebuilt", setup=setup, run=REBUILD.step(rebuild.export)),
            # -- 5 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
            dedup_step(setup, "dedup_rebuilt"),
        ],
        # -- 6 load, 7 check, 8 swap, 9 commit, and reconcile_failure: see load_to_commit
        # -- 10 clean ----- in: copy, exported files runs: worker  out: how many were deleted
        last=Step(task_id="delete_copies", setup=setup, run=REBUILD.step(takeover.after_commit)),
    )
