"""The freshness deadline of a publish run, counted from the arrival of its delivery.

Airflow's own deadline references do not fit: a triggered run has no logical date, and it is queued later than the
marker was written. plugins/deadlines_plugin.py registers ArrivalReference in every Airflow component. Airflow evaluates
this reference once for each run, when it creates the run.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert

from dedup_clone.orchestration.shared.publish_run import ARRIVED_AT, AUTOMATIC

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from dedup_clone.orchestration.shared.feed_setup import FeedSetup

CALLBACK_PATH = "dedup_clone.orchestration.publish.missed_deadline.notify_missed_deadline"

log = logging.getLogger(__name__)


class ArrivalReference(BaseDeadlineReference):
    """The time from which a run's deadline counts: `arrived_at` in its configuration; in a replay by hand, now.

    The evaluation never raises, because nothing would catch the exception, and Airflow would not create the run.
    """

    required_kwargs: ClassVar[set[str]] = {"dag_id", "run_id"}

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime:
        now = datetime.now(UTC)
        try:
            from airflow.models import DagRun
            from sqlalchemy import select

            conf = select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
            return arrival_of(session.scalar(conf), run_id) or now
        except Exception:
            log.exception("Cannot read the arrival of run [%s] of [%s]: its deadline counts from now", run_id, dag_id)
            return now


def arrival_of(conf: Any, run_id: str) -> datetime | None:
    """The arrival time in a run's configuration, never later than now; None when there is no valid one.

    None also for a run that a person started: it is a replay, whatever its configuration.
    """
    text = conf.get(ARRIVED_AT) if isinstance(conf, dict) and run_id.startswith(AUTOMATIC) else None
    if not isinstance(text, str) or not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        arrived = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        log.warning("[%s] is [%s], expected a time such as 2026-11-20T04:00:00+00:00: it is ignored", ARRIVED_AT, text)
        return None
    return min(arrived, datetime.now(UTC))


def freshness_deadline(setup: FeedSetup) -> DeadlineAlert:
    """The deadline: arrival plus the feed's freshness SLA.

    The callback runs in the triggerer, which does not read the feed file, so it gets all settings as arguments.
    """
    sla_minutes, deployment = setup.feed.freshness.sla_minutes, setup.deployment
    return DeadlineAlert(
        name=f"live within {sla_minutes} minutes of its arrival",
        reference=ArrivalReference(),
        interval=timedelta(minutes=sla_minutes),
        callback=AsyncCallback(
            CALLBACK_PATH,
            kwargs={
                "feed": setup.feed.feed,
                "sla_minutes": sla_minutes,
                "state_bucket": deployment.state_bucket,
                "connection": deployment.google_cloud_connection,
                "alerts": deployment.alerts.model_dump(mode="json"),
            },
        ),
    )
