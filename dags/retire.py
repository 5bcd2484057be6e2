"""
### Retire: takes the feed out of use.

Trigger it by hand and choose what becomes of target: keep, export, or drop. `show_retirement` shows what would be
done; `approve_retirement` waits for your approval (Required Actions). Then nothing watches or publishes the feed any
more, its staging table and the files and records of its generations are deleted, and it leaves the page, the watchdog
and the status view. Afterwards delete the feed's file and deploy. If `retire_feed` fails, clear it: it goes on
where it stopped.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from dedup_clone.orchestration import retire as operation
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags, feed_dag_arguments
from dedup_clone.orchestration.step import Step


def retire(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("retire"),
        description=f"Takes {setup.feed.feed} out of use",
        schedule=None,
        max_active_runs=1,
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "retire"],
        params=operation.params(),
        **feed_dag_arguments(setup, task_timeout=timedelta(hours=12)),  # target may be exported
    ) as dag:
        # -- 1 show ------- in: the form, state    runs: worker    out: what would be done
        show_retirement = Step(task_id="show_retirement", setup=setup, run=operation.show)

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or the later task is skipped
        approve_retirement = AskOnceOperator(
            task_id="approve_retirement",
            subject=f"Retire {setup.feed.feed}, and {{{{ params.target }}}} its table?",
            body="{{ ti.xcom_pull(task_ids='show_retirement')['text'] }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 retire ----- in: the form           runs: worker    out: the record of the retirement
        retire_feed = Step(task_id="retire_feed", setup=setup, run=operation.retire)

        show_retirement >> approve_retirement >> retire_feed
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "retire", retire))
