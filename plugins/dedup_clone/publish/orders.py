"""What one step tells the next. Small enough for XCom; everything larger lies in the attempt's folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine


@dataclass(frozen=True)
class Trigger:
    """Why a publish run exists: a delivery that was noticed, or a replay asked for by hand. No engine: the feed's.

    `dates`: the replay is of these dates of the delivery only; None: of all that it has.
    """

    dag_id: str
    run_id: str
    delivery: Delivery
    replay: bool
    engine: Engine | None
    plan: str | None
    accepted_checks: tuple[str, ...]
    reason: str
    dates: tuple[date, ...] | None = None


@dataclass(frozen=True)
class PublishOrder:
    """One attempt under the lease. `parent` is the generation it builds on; of its delivery, `dates` only (None: all).

    `snapshot_id` is the one that readers are told they see.

    A rollback `restores` an earlier generation: from its files, or, with `restored_at`, by a clone of staging as it
    was then.
    """

    feed: str
    generation: int
    attempt: str
    parent: int | None
    engine: Engine
    snapshot_id: int
    request_uri: str
    restores: int | None
    restored_at: datetime | None
    accepted_checks: tuple[str, ...]
    reason: str
    dates: tuple[date, ...] | None = None


@dataclass(frozen=True)
class SwapOrder:
    """What was checked and may go live: staging as of `checked_at`. Text values as the swap's parameters want them."""

    attempt: str
    generation: str
    parent: str
    snapshot: str
    manifest: str
    description: str
    checked_at: datetime
    expiration_days: int
    reason: str
    bytes_billed: int
    staging_bytes: int
