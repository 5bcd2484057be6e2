"""Defines the state of a feed, in which the freshness checks look for incidents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.checks.table_checks import GENERATION_LABEL
from dedup_clone.contract.delivery import INT64_MAX, Delivery
from dedup_clone.freshness.incident import format_time
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish
from dedup_clone.settings.feed import FreshnessSettings
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.audits import Audits
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.landing import InvalidMarker
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.warehouse.metadata import TableMetadata


@dataclass(frozen=True)
class WaitingDelivery:
    """A delivery that is not live yet. `is_registered`: whether the watch DAG has registered it."""

    delivery: Delivery
    arrived_at: datetime
    is_registered: bool


@dataclass(frozen=True)
class TargetState:
    """Target as it is (`table` is None when it does not exist), and as the last publish left it.

    `cloned_at` is the time as of which the last publish cloned staging; None when it was not recorded, or if a load
    replaced the rows. `staging`: staging's name. `retention_days`: the partition expiration that the last publish set.
    `materialized_views` are the names of those that a swap would break. `rows`: the failed check of the rows of its
    partitions; None if it passed. `is_changing`: target may have rows and options of a publish that is not committed,
    whose label it lacks.
    """

    table: TableMetadata | None
    staging: str
    cloned_at: datetime | None
    retention_days: int
    materialized_views: tuple[str, ...]
    rows: CheckResult | None = None
    is_changing: bool = False


@dataclass(frozen=True)
class DagActivity:
    """A DAG in Airflow. `has_active_run`: a run is queued or running. `is_deferred`: its task waits in the triggerer.

    `succeeded_at`, `failed_at`: when the last run that succeeded, or failed, ended; None if there is no such run.
    """

    dag_id: str
    is_paused: bool
    has_active_run: bool
    succeeded_at: datetime | None
    failed_at: datetime | None
    is_deferred: bool = False


@dataclass(frozen=True)
class PendingJob:
    """A BigQuery job that the running attempt created and that has not started. `since`: when BigQuery accepted it.

    `is_statement`: whether the job is one statement of a script.
    """

    job_id: str
    since: datetime
    is_statement: bool


@dataclass(frozen=True)
class FailedRun:
    """The last run of the newest waiting delivery, which did not publish it, and what becomes of the delivery.

    `number`: the run's number among the delivery's runs, from 1. `reason`: why an incident reports the run; empty if
    none does yet. `is_repeated`: whether the next run of the delivery is at work. `repeat_at`: when the next run is
    started; None if none will be, or if one is at work.
    """

    run_id: str
    delivery: Delivery
    number: int
    ended_at: datetime
    reason: str
    repeat_at: datetime | None = None
    is_repeated: bool = False


@dataclass(frozen=True)
class FeedState:
    """The state of one feed. `live` is the ledger record of the generation in CURRENT; None if there is none.

    `history` are the last attempts that committed a generation, newest last; empty if no delivery waits. `stopped` is
    the run that checks stopped with the newest waiting delivery. `failed_after_swap` are the live generation's checks
    after its swap that failed. `included` are the deliveries in the live generation, `excluded` those that a rollback
    took out. `arrivals` are the times at which deliveries arrived. `lease_holder_running` is False if no run holds the
    lease. `refused` are the refusals about which a person must still be told. `target` is None if it was not read,
    `watch_dag` if Airflow does not know the DAG, `pending_job` if BigQuery was not asked or no job waits.
    `current_is_lost`: whether CURRENT was deleted.
    """

    feed: str
    settings: FreshnessSettings
    current: Current
    lease_holder_running: bool
    live: LedgerRecord | None
    history: tuple[LedgerRecord, ...]
    arrivals: tuple[datetime, ...]
    waiting: tuple[WaitingDelivery, ...]
    refused: tuple[Refusal, ...]
    excluded: tuple[Delivery, ...]
    invalid_markers: tuple[InvalidMarker, ...]
    target: TargetState | None
    watch_dag: DagActivity | None
    publish_is_paused: bool
    failed_run: FailedRun | None
    audits: Audits
    pending_job: PendingJob | None = None
    included: tuple[Delivery, ...] = ()
    stopped: StoppedPublish | None = None
    failed_after_swap: tuple[CheckResult, ...] = ()
    current_is_lost: bool = False
    held: tuple[HeldDelivery, ...] = ()

    @property
    def sla(self) -> timedelta:
        """The longest time from a delivery's arrival to its swap."""
        return timedelta(minutes=self.settings.sla_minutes)

    @property
    def oldest_waiting(self) -> WaitingDelivery | None:
        return min(self.waiting, key=lambda w: w.arrived_at, default=None)

    @property
    def due_at(self) -> datetime | None:
        """When the oldest waiting delivery must be live; None when none waits."""
        return None if self.oldest_waiting is None else self.oldest_waiting.arrived_at + self.sla

    @property
    def uncommitted(self) -> Intent | None:
        """The run that holds the lease, if target already has the generation that it has yet to commit."""
        intent, table = self.current.intent, None if self.target is None else self.target.table
        is_swapped = intent and table and table.labels.get(GENERATION_LABEL) == str(intent.generation)
        return intent if is_swapped else None

    def has_newer(self, deliveries: Iterable[Delivery]) -> bool:
        """Whether one of these is of a later snapshot than the live ones, or a correction of the newest live one."""
        newest = newest_live(self.live, self.included)
        return any(newest is None or delivery > newest for delivery in deliveries)


def newest_live(live: LedgerRecord | None, included: Iterable[Delivery]) -> Delivery | None:
    """The newest of the deliveries that the live generation includes; None if nothing is live.

    A generation may include no delivery, as after a bootstrap. Then its highest update id counts as a snapshot id.
    """
    bootstrap = None if live is None else Delivery(live.snapshot_id, INT64_MAX)
    return max(included, default=bootstrap)


def describe_live(live: LedgerRecord | None, generation: int | None) -> str:
    """Say what a query of target returns while `generation` is live. `live`: its ledger record, if there is one."""
    if generation is None:
        return "no table yet: nothing was published"
    if live is None:
        return f"generation {generation}"
    if live.taken_over:
        taken_over = format_time(live.arrived_at)
        return f"the table taken over {taken_over}, up to update id {live.snapshot_id} (generation {live.generation})"
    return f"snapshot {live.snapshot_id} (generation {live.generation}), which arrived {format_time(live.arrived_at)}"
