"""What the judgements are made from, for one feed at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.settings.freshness import FreshnessSettings
from dedup_clone.state.audits import Audits
from dedup_clone.state.current import Current
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.warehouse.facts import TableFacts


@dataclass(frozen=True)
class WaitingDelivery:
    """A delivery that readers do not see yet; `registered`: the watch DAG has noticed it."""

    delivery: Delivery
    arrived_at: datetime
    registered: bool


@dataclass(frozen=True)
class RefusedDelivery:
    """A delivery that was set aside after the last swap."""

    delivery: Delivery
    reason: str
    refused_at: datetime


@dataclass(frozen=True)
class MisnamedMarker:
    """A marker in landing that starts no publish; `text` says why and what to do."""

    generation: int
    text: str
    created_at: datetime


@dataclass(frozen=True)
class TargetState:
    """What target is, and what the last publish left. `cloned_at` is None where nobody recorded the swap's time."""

    table: TableFacts | None
    staging: str
    cloned_at: datetime | None
    retention_days: int
    materialized_views: tuple[str, ...]


@dataclass(frozen=True)
class DagActivity:
    """What Airflow says of a DAG. `at_work`: a run is queued or running. Times are ends of runs, None without one."""

    dag_id: str
    paused: bool
    at_work: bool
    succeeded_at: datetime | None
    failed_at: datetime | None


@dataclass(frozen=True)
class Facts:
    """One feed. `live` is the record of the generation that CURRENT names, `history` those of publishes, newest last.

    `arrivals` are the times at which deliveries arrived lately, `look_again`: when the next look comes. `holder_runs`
    says whether the run that holds the lease is at work. `audits` are those of target's contents. What nobody asked is
    None.
    """

    feed: str
    settings: FreshnessSettings
    current: Current
    holder_runs: bool
    live: LedgerRecord | None
    history: tuple[LedgerRecord, ...]
    arrivals: tuple[datetime, ...]
    waiting: tuple[WaitingDelivery, ...]
    refused: tuple[RefusedDelivery, ...]
    misnamed: tuple[MisnamedMarker, ...]
    target: TargetState | None
    watch: DagActivity | None
    publish: DagActivity | None
    look_again: timedelta
    audits: Audits

    @property
    def promise(self) -> timedelta:
        return timedelta(minutes=self.settings.promise_minutes)

    @property
    def oldest_waiting(self) -> WaitingDelivery | None:
        return min(self.waiting, key=lambda w: w.arrived_at, default=None)
