"""Runs in the triggerer when a publish run misses its freshness deadline: tells of it once."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.incident import Incident, Kind, Severity
from dedup_clone.freshness.incident_files import IncidentFiles, IncidentRecord
from dedup_clone.freshness.late_run import LateRun, judge_late_run
from dedup_clone.orchestration.deadlines import arrival_of
from dedup_clone.orchestration.notifiers import AlertSender, alert_of
from dedup_clone.settings.alerts import AlertSettings

log = logging.getLogger(__name__)


async def tell_of_missed_deadline(
    *, feed: str, promise_minutes: int, state_bucket: str, connection: str, alerts: dict[str, Any], context: Any
) -> None:
    """Must return None and raise nothing: anything else can take the triggerer down, and all that waits in it.

    It asks Airflow nothing: the triggerer's first question to Airflow's API builds that API inside the triggerer, for
    which it stands still for half a minute on a busy machine. (A connection that is in no environment variable or
    secret backend is such a question, once.)
    """

    def judge_and_tell() -> None:
        settings = AlertSettings.model_validate_json(json.dumps(alerts))
        _tell(late_run(feed, promise_minutes, context["dag_run"]), settings, state_bucket, connection)

    try:
        # A thread of its own: the one that sync_to_async shares serves the other triggers.
        await asyncio.to_thread(judge_and_tell)
    except Exception:
        log.exception("feed=%s the missed deadline could not be told; the watchdog tells of it", feed)


def late_run(feed: str, promise_minutes: int, dag_run: dict[str, Any]) -> LateRun:
    """The run as the deadline's context describes it."""
    conf = dag_run.get("conf") or {}
    started = datetime.fromisoformat(dag_run.get("queued_at") or dag_run["run_after"])
    return LateRun(
        feed=feed,
        run_id=dag_run["dag_run_id"],
        delivery=_delivery(conf),
        arrived_at=arrival_of(conf),
        started_at=started.astimezone(UTC),
        promise=timedelta(minutes=promise_minutes),
        state=str(dag_run.get("state") or "of unknown state"),
    )


def _delivery(conf: dict[str, Any]) -> Delivery | None:
    try:
        return Delivery(int(conf["snapshot_id"]), int(conf["marker_generation"]))
    except (KeyError, TypeError, ValueError):
        return None


def _tell(run: LateRun, settings: AlertSettings, state_bucket: str, connection: str) -> None:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    from dedup_clone.state.store import ObjectStore

    sender, now = AlertSender(settings), datetime.now(UTC)

    def tell(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        alert = alert_of(
            record, feed=run.feed, readers_see=record.incident.readers_see, settings=settings, run_id=run.run_id
        )
        return sender.send(alert, names)

    try:
        store = ObjectStore(GCSHook(gcp_conn_id=connection).get_conn(), state_bucket)
        incident = judge_late_run(store, run, now)
        files = IncidentFiles(store, run.feed, sender.names, tell)
    except Exception as error:
        log.exception("feed=%s state cannot be read", run.feed)
        tell(IncidentRecord(_unjudged(run, error), now, None, now, (), ()), sender.names)
        return
    if incident is None:
        log.info("feed=%s run [%s] is late, and readers lost nothing: tells nobody", run.feed, run.run_id)
    elif incident.kind is Kind.REPLAY_LATE:  # Airflow fires once for a run, and nothing else looks after replays
        tell(IncidentRecord(incident, now, None, now, (), ()), sender.names)
    elif not files.open(incident, now):
        log.info("feed=%s [%s] is known already", run.feed, incident.name)


def _unjudged(run: LateRun, error: Exception) -> Incident:
    return Incident(
        Kind.PROMISE_MISSED,
        Severity.ALERT,
        since=(run.arrived_at or run.started_at) + run.promise,
        what=f"run [{run.run_id}] has not succeeded in time; it is {run.state}.",
        readers_see=f"unknown: the state bucket cannot be read ({type(error).__name__}: {error})",
        next_step="open the run; see whether the state bucket can be reached.",
    )
