"""One check of one feed by the watchdog: stores its verdict, updates its incidents, sends alerts, emits metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dedup_clone.contract.attempt import Swap
from dedup_clone.contract.errors import FeedHeldElsewhere
from dedup_clone.contract.table import PartitionBy
from dedup_clone.freshness.arrival_checks import overdue_times
from dedup_clone.freshness.evaluation import evaluate
from dedup_clone.freshness.feed_state import DagActivity, FeedState
from dedup_clone.freshness.incident import read_incident_records
from dedup_clone.freshness.read_feed_state import read_feed_state
from dedup_clone.freshness.verdict import FeedFile, FreshnessVerdict, read_verdict, write_verdict
from dedup_clone.orchestration.setup import FeedSetup, find_in_airflow, open_feed_services
from dedup_clone.orchestration.watch.publish_runs import find_failed_publish
from dedup_clone.orchestration.watchdog.notifiers import report_incidents
from dedup_clone.orchestration.watchdog.reporting import reporting_incidents
from dedup_clone.publish.services import Clients, Services, utc_now
from dedup_clone.settings.deployment import AlertSettings
from dedup_clone.state.current import CurrentFile
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore

log = logging.getLogger(__name__)


def check_feed(setup: FeedSetup, clients: Clients | None = None) -> list[str]:
    """Checks the feed and returns the names of its incidents; does nothing if the feed is retired.

    Raises AlertNotSent when a notifier failed; the next check sends that alert again. Raises FeedHeldElsewhere if
    another environment publishes the feed, which knows its runs.
    """
    services = open_feed_services(setup, clients)
    current = services.current.read()
    if refusal := current.refusal(services.environment):
        raise FeedHeldElsewhere(refusal)
    if current.retired:
        services.log("not checked: the feed is retired", level=logging.WARNING)
        forget_if_retired(services.store, services.feed.feed, services.environment, setup.deployment.alerts)
        return []
    state, verdict = _evaluate(setup, services, reads_bigquery=clients is None or clients.bigquery_answers)
    names = [incident.name for incident in verdict.incidents]
    found = f"incidents: {', '.join(names) or 'none'}"
    services.log(f"freshness is {verdict.status}, {found}; readers see {verdict.readers_see}")
    try:
        report_incidents(
            services.store,
            state.feed,
            verdict.incidents,
            verdict.checked_at,
            setup.deployment.alerts,
            readers_see=verdict.readers_see,
        )
    finally:
        store_verdict(services.store, verdict)
        _emit_metrics(state, verdict)
    return names


def refresh_verdict(setup: FeedSetup, *, reads_bigquery: bool = True) -> None:
    """Evaluates the feed between two checks and stores the verdict, for the page. Sends no alert.

    Without `reads_bigquery`, what only BigQuery tells is taken from the last check. A failure is logged and never
    raised.
    """
    try:
        services = open_feed_services(setup)
        current = services.current.read()
        if not (current.retired or current.refusal(services.environment)):
            store_verdict(services.store, _evaluate(setup, services, reads_bigquery=reads_bigquery)[1])
    except Exception:
        log.warning("feed=%s verdict not refreshed; the next check writes it", setup.feed.feed, exc_info=True)


def forget_if_retired(store: ObjectStore, feed: str, environment: str, settings: AlertSettings) -> None:
    """If `environment` retired the feed, delete its verdict, and end its incidents, with an alert for each.

    A check that began before the retirement may write both after it. Raises AlertNotSent.
    """
    current = CurrentFile(store, feed).read()
    if current.retired and not current.refusal(environment):
        forget(store, feed, settings, readers_see="the table as the retirement left it: the feed is out of use")


def forget(store: ObjectStore, feed: str, settings: AlertSettings, *, readers_see: str) -> None:
    """End the incidents, with an alert for each, and delete the verdict, which stays if AlertNotSent is raised."""
    layout = FeedLayout(feed)
    report_incidents(store, feed, (), utc_now(), settings, readers_see=readers_see)
    store.delete_prefix(layout.freshness)
    if not read_incident_records(store, feed).records:
        store.delete_prefix(layout.incidents)


def _evaluate(
    setup: FeedSetup, services: Services, *, reads_bigquery: bool = True
) -> tuple[FeedState, FreshnessVerdict]:
    """The feed's state and the verdict on it. Without `reads_bigquery`, the state lacks what BigQuery knows."""
    now = services.now()  # taken before the state is read: write_verdict keeps the verdict with the later time
    reported = read_incident_records(services.store, services.feed.feed).open
    state = read_feed_state(
        services,
        watch_dag=dag_activity(setup.dag_id("watch")),
        publish_is_paused=_is_paused(setup.dag_id("publish")),
        find_failed_run=lambda waiting: find_failed_publish(services, setup.dag_id("publish"), waiting),
        reads_bigquery=reads_bigquery,
    )
    verdict = evaluate(now, state, reported=reported, runbook=setup.deployment.alerts.runbook)
    return state, replace(verdict, feed_file=describe_feed_file(services, reads_bigquery=reads_bigquery))


def describe_feed_file(services: Services, *, reads_bigquery: bool) -> FeedFile:
    """What the page shows of the feed's file."""
    feed, names = services.feed, services.names
    hours, created_at = _time_travel(services, reads_bigquery=reads_bigquery)
    return FeedFile(
        description=feed.description,
        owner=feed.owner,
        target=f"{names.project}.{names.dataset}.{names.target_table}",
        landing_folder=services.landing.store.uri(f"{feed.landing.prefix}/"),
        landing_files=f"{feed.table.to_contract().date_folder}=YYYY-MM-DD/*.parquet"
        if feed.landing.date_folders
        else "*.parquet",
        marker=feed.landing.marker,
        retention_days=feed.table.retention_days,
        sla_minutes=feed.freshness.sla_minutes,
        time_travel_hours=hours,
        staging_created_at=created_at,
    )


def _time_travel(services: Services, *, reads_bigquery: bool) -> tuple[float, datetime | None]:
    """For how many hours time travel reaches, and when staging was created; without `reads_bigquery` as last read."""
    feed = services.feed
    by_day = feed.table.partition_by is PartitionBy.DAY
    if feed.publish.swap is Swap.COPY or (feed.engine.runs_spark and not by_day):
        return 0.0, None  # a rollback needs files
    if reads_bigquery:
        staging = services.warehouse.table(services.feed.staging)
        hours = services.warehouse.time_travel_window().total_seconds() / 3600
        return hours, None if staging is None else staging.created_at
    last = read_verdict(services.store, services.feed.feed)
    known = None if last is None else last.feed_file
    return (0.0, None) if known is None else (known.time_travel_hours, known.staging_created_at)


def store_verdict(store: ObjectStore, verdict: FreshnessVerdict) -> None:
    """Store the verdict for the page, with the incidents of tables that have rows of all feeds."""
    incidents = (*verdict.incidents, *reporting_incidents(store, verdict.feed))
    write_verdict(store, replace(verdict, incidents=incidents))


def _emit_metrics(state: FeedState, verdict: FreshnessVerdict) -> None:
    """Emits one gauge per metric. Plain StatsD drops tags, so the feed is in the name too."""
    from airflow.sdk.observability import stats

    metrics = feed_metrics(verdict.checked_at, state, len(verdict.incidents))
    log.info("%s", gauges_line(metrics, feed=state.feed))
    for name, value in metrics.items():
        stats.gauge(f"dedup_clone.{name}.{state.feed}", value, tags={"feed": state.feed})


def gauges_line(values: Mapping[str, float], *, feed: str | None = None) -> str:
    """Format the values as a line of the log. Terraform's monitoring.tf makes log-based metrics from such lines.

    It reads digits and a point: of 5e-05 it would read 5.
    """
    words = ["dedup_clone_gauges", *([f"feed={feed}"] if feed else [])]
    return " ".join([*words, *(f"{name}={round(value, 4):.15g}" for name, value in values.items())])


def feed_metrics(now: datetime, state: FeedState, open_incidents: int) -> dict[str, float]:
    """The gauges' values by name, without the prefix `dedup_clone.`; a value that is not known yet is left out.

    `open_incidents`: the number of the feed's open incidents.
    """
    oldest, expected = state.oldest_waiting, state.settings.expected_arrivals
    waiting_s = 0.0 if oldest is None else (now - oldest.arrived_at).total_seconds()
    values: dict[str, float | None] = {
        "deliveries_waiting": len(state.waiting),
        "waiting_seconds": waiting_s,
        "sla_seconds": state.sla.total_seconds(),
        "sla_share_used": waiting_s / state.sla.total_seconds(),
        "incidents_open": open_incidents,
        "arrivals_overdue": None if expected is None else len(overdue_times(expected, state.arrivals, now)),
    }
    last_audit = state.audits.last
    if last_audit is not None:
        values |= {
            "partitions_unequal": len(state.audits.unequal),
            "audit_age_seconds": (now - last_audit.audited_at).total_seconds(),
        }
    if (live := state.live) is not None:
        values |= {
            "age_seconds": (now - live.arrived_at).total_seconds(),
            "lag_seconds": live.lag_s,
            "queued_seconds": live.phases.get("queued"),
        }
    return {name: float(value) for name, value in values.items() if value is not None}


def dag_activity(dag_id: str) -> DagActivity | None:
    """What Airflow knows of a DAG and its runs; None if it does not know the DAG (yet)."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    dag = find_in_airflow(lambda: RuntimeTaskInstance.get_dag(dag_id))
    if dag is None:
        return None
    return DagActivity(
        dag_id=dag_id,
        is_paused=dag.is_paused,
        has_active_run=RuntimeTaskInstance.get_dr_count(dag_id, states=["running", "queued"]) > 0,
        succeeded_at=_last_end(dag_id, "success"),
        failed_at=_last_end(dag_id, "failed"),
        is_deferred=RuntimeTaskInstance.get_ti_count(dag_id, states=["deferred"]) > 0,
    )


def _is_paused(dag_id: str) -> bool:
    """False if Airflow does not know the DAG (yet)."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    dag = find_in_airflow(lambda: RuntimeTaskInstance.get_dag(dag_id))
    return dag is not None and dag.is_paused


def _last_end(dag_id: str, state: str) -> datetime | None:
    """When the last scheduled run of the DAG that is in this state ended; None if there is none.

    `ti.get_previous_dagrun` sends the same request, but only about its own DAG.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetPreviousDagRun, PreviousDagRunResult

    tomorrow = datetime.now(UTC) + timedelta(days=1)  # the request is for runs before a logical date
    answer = task_runner.SUPERVISOR_COMMS.send(GetPreviousDagRun(dag_id=dag_id, logical_date=tomorrow, state=state))
    run = answer.dag_run if isinstance(answer, PreviousDagRunResult) else None
    return None if run is None else run.end_date
