"""
### Erase: removes the rows of named keys from everything that this project keeps, for example at a person's request.

Upload a CSV file of keys to the folder `to_erase/` of the feed in the state bucket, then trigger this DAG with the feed
and the file's name. `show_erasure` shows how many rows the keys have; `approve_erasure` waits for your approval
(Required Actions in Airflow) and meanwhile blocks no publish. After the approval a new generation without these rows is
published, and the files of all earlier generations are deleted. Later and replayed snapshots do not bring the keys
back. No generation from before the erasure can be restored by a rollback.

In a good run the task `reconcile_failure` is skipped: it runs after a failure only.
"""

from __future__ import annotations

from dedup_clone.orchestration import erase as operation
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.load_to_commit import load_to_commit
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "erase",
    __doc__,
    description="Removes the rows of named keys of a feed for good",
    params={"feed": feed_field, **operation.params()},
) as dag:
    # -- 1 show ------- in: the form, the keys runs: worker    out: what would be deleted
    show_erasure = Step(task_id="show_erasure", setup=setup, run=operation.show)

    # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
    approve_erasure = AskOnceOperator(
        task_id="approve_erasure",
        setup=setup,
        question="erase keys for good?",
        shown_by="show_erasure",
    )

    # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
    resolve_erasure = Step(task_id="resolve_erasure", setup=setup, run=operation.resolve)

    # -- 4 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
    dedup = dedup_step(setup, "erase_rows")

    # -- 5 load, 6 check, 7 swap, 8 commit, and reconcile_failure: see load_to_commit
    steps = load_to_commit(setup)

    # -- 9 delete ----- in: state              runs: worker    out: the deleted folders (the file of keys goes too)
    delete_leftovers = Step(task_id="delete_leftovers", setup=setup, run=operation.clean)

    show_erasure >> approve_erasure >> resolve_erasure >> dedup >> steps.load
    steps.commit >> delete_leftovers
    [resolve_erasure, dedup] >> steps.on_failure
