"""The freshness deadline of a publish run, counted from the arrival of its delivery.

Airflow's own references do not fit: a triggered run has no logical date, and the time at which a run was queued is not
when the marker was written. The class below is registered by plugins/deadlines_plugin.py in every component, and
evaluated once, when a run is created.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from dedup_clone.orchestration.connect import FeedSetup

ARRIVED_AT = "arrived_at"  # the key in a run's configuration: ISO 8601, written by the watch DAG
CALLBACK = "dedup_clone.orchestration.missed_deadline.tell_of_missed_deadline"

log = logging.getLogger(__name__)


class ArrivalReference(BaseDeadlineReference):
    """The run's `arrived_at`; where it has none (a replay by hand), the time at which it was triggered.

    Nothing catches what is raised here, and the run would not be created: it never raises.
    """

    required_kwargs: ClassVar[set[str]] = {"dag_id", "run_id"}

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime:
        now = datetime.now(UTC)
        try:
            from airflow.models import DagRun
            from sqlalchemy import select

            found = select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
            return arrival_of(session.scalar(found)) or now
        except Exception:
            log.exception("No arrival of run [%s] of [%s]: its deadline counts from now", run_id, dag_id)
            return now


def arrival_of(conf: Any) -> datetime | None:
    """The arrival that a run's configuration names, never in the future; None when it names none."""
    text = conf.get(ARRIVED_AT) if isinstance(conf, dict) else None
    if not isinstance(text, str):
        return None
    try:
        named = datetime.fromisoformat(text)
        arrived = (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        log.warning("[%s] is [%s], expected a time such as 2026-11-20T04:00:00+00:00: it is ignored", ARRIVED_AT, text)
        return None
    return min(arrived, datetime.now(UTC))


def freshness_deadline(setup: FeedSetup) -> DeadlineAlert:
    """Arrival plus the feed's promise. The callback runs in the triggerer, which does not read the feed's file."""
    minutes, deployment = setup.feed.freshness.promise_minutes, setup.deployment
    return DeadlineAlert(
        name=f"live within {minutes} minutes of its arrival",
        reference=ArrivalReference(),
        interval=timedelta(minutes=minutes),
        callback=AsyncCallback(
            CALLBACK,
            kwargs={
                "feed": setup.feed.feed,
                "promise_minutes": minutes,
                "state_bucket": deployment.state_bucket,
                "connection": deployment.google_cloud_connection,
                "alerts": deployment.alerts.model_dump(mode="json"),
            },
        ),
    )
