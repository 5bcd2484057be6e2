"""Makes the state of a feed in which nothing is wrong, its parts, and things that may be wrong, for tests of freshness.

`changes` of a function: other values of the fields of what it makes.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.freshness.feed_state import (
    DagActivity,
    FailedRun,
    FeedState,
    TargetState,
    WaitingDelivery,
)
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.orchestration.watchdog.notifiers import Alert
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish
from dedup_clone.settings.feed import ExpectedArrivals, FreshnessSettings
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.audits import AuditRecord, Audits, PartitionComparison
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage
from dedup_clone.warehouse.metadata import TableMetadata

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
CLONED_AT = NOW - timedelta(hours=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def record(snapshot_id: int = 7, **changes: Any) -> LedgerRecord:
    """A publish of half an hour: 5 minutes until the lease, 20 minutes of dedup, 5 minutes until the swap."""
    arrived = NOW - timedelta(hours=2)
    healthy = LedgerRecord(
        feed="sales",
        kind=Kind.PUBLISH,
        outcome=Outcome.PUBLISHED,
        stage=Stage.COMMIT,
        reason="",
        snapshot_id=snapshot_id,
        deliveries=(Delivery(snapshot_id, 1),),
        generation=snapshot_id,
        parent=None,
        attempt=f"{snapshot_id:08d}-x",
        dag_id="sales_publish",
        run_id=f"publish__{snapshot_id}__1",
        restores=None,
        engine=Engine.SPARK,
        plans=("adopt",),
        arrived_at=arrived,
        swapped_at=arrived + minutes(30),
        lag_s=1800.0,
        rows=1000,
        new_rows=10,
        changed_rows=5,
        kept_rows=2,
        phases={"until_lease": 300.0, "dedup": 1200.0, "load": 60.0, "swap": 5.0},
        cost=Cost(query_bytes_billed=20, query_usd=0.0002, merge_usd=180.0, qualify_usd=180.0),
    )
    return dataclasses.replace(healthy, **changes)


def table(**changes: Any) -> TableMetadata:
    healthy = TableMetadata(
        name="sales",
        columns=(),
        rows=1000,
        size=1,
        partition_column="date",
        expiration_days=730.0,
        cluster_by=(),
        labels={"dedup_clone_generation": "7", "dedup_clone_manifest": "digest7"},
        streaming_buffer=None,
        clone_of="sales_staging",
        clone_time=CLONED_AT,
        created_at=CLONED_AT,
    )
    return dataclasses.replace(healthy, **changes)


def target(found: TableMetadata | None = None, **changes: Any) -> TargetState:
    return dataclasses.replace(TargetState(found or table(), "sales_staging", CLONED_AT, 730, ()), **changes)


def activity(**changes: Any) -> DagActivity:
    return dataclasses.replace(DagActivity("sales_watch", False, True, NOW - minutes(30), None), **changes)


def intent(age: timedelta, *jobs: str, kind: Kind = Kind.PUBLISH) -> Intent:
    """A lease that was acquired `age` before NOW. `jobs`: BigQuery job ids."""
    return Intent(kind, "sales_publish", "run-8", "8-x", 7, 8, NOW - age, jobs)


def current(lease: Intent | None = None, generation: int | None = 7) -> Current:
    return Current("sales", generation, None if generation is None else f"digest{generation}", 7, lease)


def waits(age: timedelta, snapshot_id: int = 8, *, registered: bool = True) -> WaitingDelivery:
    """A delivery that waits and arrived `age` before NOW."""
    return WaitingDelivery(Delivery(snapshot_id, 1), NOW - age, registered)


def audits(*missing_rows: int) -> Audits:
    """Audits that found so many rows missing, and as many surplus ones, on the dates from 1 June on."""
    records = tuple(
        AuditRecord(date(2026, 6, day), 7, NOW - minutes(60), PartitionComparison(4, 4, missing, missing))
        for day, missing in enumerate(missing_rows, 1)
    )
    return Audits(NOW.date(), {}, records)


def feed_state(
    *, expected: ExpectedArrivals | None = None, max_age_minutes: int | None = None, **changes: Any
) -> FeedState:
    """The state of a feed: snapshot 7 is live, nothing waits, both DAGs run. The SLA is 60 minutes.

    The run of an intent in `current` is running, unless `lease_holder_running` is given.
    """
    settings = FreshnessSettings(sla_minutes=60, expected_arrivals=expected, max_age_minutes=max_age_minutes)
    history = tuple(record(n) for n in (5, 6, 7))
    healthy = FeedState(
        feed="sales",
        settings=settings,
        current=current(),
        lease_holder_running=changes.get("current", current()).intent is not None,
        live=history[-1],
        history=history,
        arrivals=(NOW - timedelta(hours=2),),
        waiting=(),
        refused=(),
        excluded=(),
        invalid_markers=(),
        target=target(),
        watch_dag=activity(),
        publish_is_paused=False,
        failed_run=None,
        audits=audits(),
    )
    return dataclasses.replace(healthy, **changes)


def held(snapshot_id: int) -> HeldDelivery:
    delivery = Delivery(snapshot_id, 1)
    stopped = StoppedPublish((delivery,), "sales_publish", "held", (MANY_NEW,), 7, "00000008-abc")
    return HeldDelivery(delivery, NOW, stopped)


def stopped(*failed: CheckResult) -> StoppedPublish:
    return StoppedPublish((Delivery(8, 1),), "sales_publish", "publish__8__1", failed, 7, "00000008-abc")


def refused(snapshot_id: int, marker: int = 1) -> Refusal:
    return Refusal(Delivery(snapshot_id, marker), "NULL keys", NOW)


DAILY = ExpectedArrivals(times=("11:00",), zone="UTC", grace_minutes=30)
MANY_NEW = CheckResult(
    "new_share",
    Level.FAIL,
    "5 of 10 rows new",
    "at most 20.00% as configured",
    "accept it.",
)
REPEATED = FailedRun("publish__8__1", Delivery(8, 1), 1, NOW, "", repeat_at=NOW + minutes(10))
GIVEN_UP = FailedRun("publish__8__1__4", Delivery(8, 1), 4, NOW, "all runs failed")


def incident(kind: IncidentKind = IncidentKind.ARRIVAL_OVERDUE, subject: str = "", **changes: Any) -> Incident:
    made = Incident(kind, Severity.ALERT, NOW, "what", "next.", subject)
    return dataclasses.replace(made, **changes)


BEGAN = Alert(
    feed="sales",
    incident=incident(IncidentKind.LATE, what="snapshot 8 <b>is</b> not live.", next_step="open the run."),
    readers_see="snapshot 7",
    runbook="https://host/runbook.md#late",
    link="https://airflow/dags/sales_publish",
)
