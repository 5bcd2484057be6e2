"""
### Erase: removes the rows of named keys from everything that this project keeps, for example at a person's request.

Upload a CSV file of keys to the folder `to_erase/` of the feed in the state bucket, then trigger this DAG with the feed
and the file's name. `show_erasure` shows how many rows the keys have; `approve_erasure` waits for your approval
(Required Actions in Airflow) and meanwhile blocks no publish. After the approval a new generation without these rows is
published, and the files of all earlier generations are deleted. Later and replayed snapshots do not bring the keys
back.
"""

from __future__ import annotations

from dedup_clone.operations import erase
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.operation import operation_tasks
from dedup_clone.orchestration.operation_forms import ERASE, erasure_fields
from dedup_clone.orchestration.runners.dedup import dedup_step
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "erase",
    __doc__,
    description="Removes the rows of named keys of a feed for good",
    params={"feed": feed_field, **erasure_fields()},
) as dag:
    operation_tasks(
        setup,
        ERASE,
        # -- 1 show ------- in: the form, the keys runs: worker    out: what would be deleted
        show="show_erasure",
        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or every later task is skipped
        approve="approve_erasure",
        question="erase keys for good?",
        # -- 3 resolve ---- in: the form           runs: worker    out: the attempt (lease acquired)
        resolve="resolve_erasure",
        # -- 4 dedup ------ in: the attempt        runs: Spark     out: data folder, candidate manifest
        before_load=[dedup_step(setup, "erase_rows")],
        # -- 5 load, 6 check, 7 swap, 8 commit, and reconcile_failure: see load_to_commit
        # -- 9 delete ----- in: state              runs: worker    out: the deleted folders (the file of keys goes too)
        last=Step(task_id="delete_leftovers", setup=setup, run=ERASE.step(erase.after_commit)),
    )
