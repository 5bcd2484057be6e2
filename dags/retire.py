"""
### Retire: takes a feed out of use.

Trigger it by hand with the feed, and choose what becomes of target: keep or drop. `show_retirement` shows what
would be done; `approve_retirement` waits for your approval (Required Actions in Airflow). Then nothing watches or
publishes the feed any more, its staging table and the files and records of its generations are deleted, and it leaves
the page, the watchdog and the status view. Afterwards delete the feed's file and deploy. If `retire_feed` fails, clear
it: it goes on where it stopped.
"""

from __future__ import annotations

from functools import partial

from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag
from dedup_clone.orchestration.operation import ask_first
from dedup_clone.orchestration.operation_forms import RETIRE, retire_feed, retirement_fields
from dedup_clone.orchestration.step import Step

setup, feed_field = feed_of_form(__file__)

with shared_dag(
    "retire",
    __doc__,
    description="Takes a feed out of use",
    params={"feed": feed_field, **retirement_fields()},
) as dag:
    approve = ask_first(
        setup,
        RETIRE,
        # -- 1 show ------- in: the form, state    runs: worker    out: what would be done
        show="show_retirement",
        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or the later task is skipped
        approve="approve_retirement",
        question="retire the feed, and {{ params.target }} its table?",
    )
    # -- 3 retire ----- in: the form           runs: worker    out: the record of the retirement
    approve >> Step(task_id="retire_feed", setup=setup, run=partial(retire_feed, show_task="show_retirement"))
