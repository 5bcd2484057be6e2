"""
### Bootstrap: takes over an existing table's rows as the first generation of a feed.

It is for a table that another process, such as a MERGE job, has maintained until now. A feed without such a table needs
no bootstrap: land its first snapshot. **Stop whatever writes the table**, then trigger this DAG by hand with the feed.
`show_existing` shows what would be exported, loaded, left out and billed, and fails if something prevents the
bootstrap. `approve_bootstrap` waits for your approval (Required Actions in Airflow) and meanwhile blocks no other run.
Then the rows are exported (free), checked and written by the dedup job, loaded (free), compared with the table, and
swapped in by one statement. Until that statement, and after a failure, readers see the table as it is. Trigger a failed
bootstrap again: it starts from the beginning.
"""

from __future__ import annotations

from dedup_clone.operations import takeover
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.operation import operation_tasks
from dedup_clone.orchestration.operation_forms import BOOTSTRAP, bootstrap_fields
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "bootstrap",
    __doc__,
    description="Takes over an existing table as the first generation of a feed",
    params={"feed": feed_field, **bootstrap_fields()},
) as dag:
    operation_tasks(
        setup,
        BOOTSTRAP,
        # -- 1 show ------- in: the form           runs: worker    out: what would happen
        show="show_existing",
        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve="approve_bootstrap",
        question="take over the existing table as the first generation?",
        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        resolve="resolve_bootstrap",
        before_load=[
            # -- 4 export ----- in: the table          runs: BigQuery  out: its files in state
            Step(task_id="export_existing", setup=setup, run=BOOTSTRAP.step(takeover.export)),
            # -- 5 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
            dedup_step(setup, "dedup_existing"),
        ],
        # -- 6 load, 7 check, 8 swap, 9 commit, and reconcile_failure: see load_to_commit
        # -- 10 clean ----- in: exported files     runs: worker    out: how many were deleted
        last=Step(task_id="delete_export", setup=setup, run=BOOTSTRAP.step(takeover.after_commit)),
    )
