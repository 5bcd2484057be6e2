"""The callback that Airflow runs in the triggerer when a publish run misses its deadline: sends one alert about it."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.incident_records import IncidentRecord, IncidentRecords
from dedup_clone.freshness.late_run import ENDED_STATES, LateRun, check_late_run
from dedup_clone.orchestration.publish.freshness_deadline import arrival_of
from dedup_clone.orchestration.shared.task_runtime import open_gcs_bucket
from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers, build_alert
from dedup_clone.settings.alert_settings import AlertSettings

log = logging.getLogger(__name__)


async def notify_missed_deadline(
    *, feed: str, sla_minutes: int, state_bucket: str, connection: str, alerts: dict[str, Any], context: Any
) -> None:
    """Send the alert of a missed deadline. Returns None and raises nothing.

    `connection`: Airflow's connection to the state bucket. `alerts`: the profile's section `alerts`. `context`: the
    context that Airflow passes to the callback; its `dag_run` describes the run.

    Another result, or an exception, can stop the triggerer and with it every deferred task. The callback must not call
    Airflow's API, because the first call builds the API inside the triggerer, which blocks the triggerer for up to half
    a minute. (Reading a connection that is in no environment variable or secret backend is such a call, too.)
    """

    def notify() -> None:
        settings = AlertSettings.model_validate_json(json.dumps(alerts))
        _notify(read_late_run(feed, sla_minutes, context["dag_run"]), settings, state_bucket, connection)

    try:
        # sync_to_async would run it in the one thread that all triggers share.
        await asyncio.to_thread(notify)
    except Exception:
        log.exception(
            "feed=%s no alert about the missed deadline could be sent; the watchdog sends one if a delivery is late",
            feed,
        )


def read_late_run(feed: str, sla_minutes: int, dag_run: dict[str, Any]) -> LateRun:
    """The late run. `dag_run`: what the context of the callback says of it."""
    conf, run_id = dag_run.get("conf") or {}, dag_run["dag_run_id"]
    started = datetime.fromisoformat(dag_run.get("queued_at") or dag_run["run_after"])
    return LateRun(
        feed=feed,
        run_id=run_id,
        delivery=_delivery(conf),
        arrived_at=arrival_of(conf, run_id),
        started_at=started.astimezone(UTC),
        sla=timedelta(minutes=sla_minutes),
        state=str(dag_run.get("state") or "of unknown state"),
    )


def _delivery(conf: dict[str, Any]) -> Delivery | None:
    """The delivery that a run's configuration names; None if it names none."""
    try:
        return Delivery(int(conf["snapshot_id"]), int(conf["marker_generation"]))
    except (KeyError, TypeError, ValueError):
        return None


def _notify(run: LateRun, settings: AlertSettings, state_bucket: str, connection: str) -> None:
    """Sends the alert about the late run, also if state cannot be read.

    Sends none if neither a delivery nor a replay is late, or if the incident of a late delivery is open already.
    """
    notifiers, now = AlertNotifiers(settings), datetime.now(UTC)

    def send(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        readers_see = record.incident.readers_see
        alert = build_alert(record, feed=run.feed, readers_see=readers_see, settings=settings)
        return notifiers.send(alert, names)

    def send_without_record(incident: Incident) -> None:
        send(IncidentRecord(incident, now, None, now, (), ()), notifiers.names)

    try:
        store = open_gcs_bucket(connection, state_bucket)
        incident = check_late_run(store, run, now)
        records = IncidentRecords(store, run.feed, notifiers.names, send)
    except Exception as error:
        log.exception("feed=%s cannot read the state bucket", run.feed)
        if run.arrived_at is not None or run.state not in ENDED_STATES:  # whoever started a replay has seen its end
            send_without_record(_state_unreadable(run, error))
        return
    if incident is None:
        log.info("feed=%s run [%s] missed its deadline, but no delivery is late: no alert", run.feed, run.run_id)
    elif incident.kind is IncidentKind.REPLAY_LATE:
        # No record is stored: the watchdog does not check replays, so its next check would end the incident. No record
        # is needed to prevent a second alert, because a deadline fires only once.
        send_without_record(incident)
    elif not records.open(incident, now):
        log.info("feed=%s incident [%s] is open already: no alert", run.feed, incident.name)


def _state_unreadable(run: LateRun, error: Exception) -> Incident:
    """The incident to report if the state bucket cannot be read, so that nobody knows whether the delivery is live."""
    return Incident(
        IncidentKind.SLA_MISSED,
        Severity.ALERT,
        since=(run.arrived_at or run.started_at) + run.sla,
        what=f"run [{run.run_id}] has not succeeded in time; it is {run.state}.",
        readers_see=f"unknown: the state bucket cannot be read ({type(error).__name__}: {error})",
        next_step="open the run, and check whether Airflow can reach the state bucket.",
        dag_id=f"{run.feed}_publish",
        run_id=run.run_id,
    )
