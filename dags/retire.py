"""
### Retire: takes a feed out of use.

Trigger it by hand with the feed, and choose what becomes of target: keep or drop. `show_retirement` shows what
would be done; `approve_retirement` waits for your approval (Required Actions in Airflow). Then nothing watches or
publishes the feed any more, its staging table and the files and records of its generations are deleted, and it leaves
the page, the watchdog and the status view. Afterwards delete the feed's file and deploy. If `retire_feed` fails, clear
it: it goes on where it stopped.
"""

from __future__ import annotations

from dedup_clone.orchestration import retire as operation
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "retire",
    __doc__,
    description="Takes a feed out of use",
    params={"feed": feed_field, **operation.params()},
) as dag:
    # -- 1 show ------- in: the form, state    runs: worker    out: what would be done
    show_retirement = Step(task_id="show_retirement", setup=setup, run=operation.show)

    # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or the later task is skipped
    approve_retirement = AskOnceOperator(
        task_id="approve_retirement",
        setup=setup,
        question="retire the feed, and {{ params.target }} its table?",
        shown_by="show_retirement",
    )

    # -- 3 retire ----- in: the form           runs: worker    out: the record of the retirement
    retire_feed = Step(task_id="retire_feed", setup=setup, run=operation.retire)

    show_retirement >> approve_retirement >> retire_feed
