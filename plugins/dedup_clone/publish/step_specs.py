"""Defines the inputs of a run's steps. Each fits into XCom; larger data are objects in the attempt's folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine


@dataclass(frozen=True)
class PublishRequest:
    """What a publish run was started for: a new delivery, or a replay that an operator requested.

    `engine` and `plan`: None for the feed's own. `accepted_checks`: the checks whose failure the operator accepts;
    `reason`: why the operator asked for the replay, or empty. `dates`: the only dates of the delivery to replay; None
    for all.
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
class PublishSpec:
    """One attempt under the lease, which makes `generation` on top of generation `parent`.

    `snapshot_id` is the newest snapshot that the attempt would apply. If `dates` is set (see PublishRequest), and in an
    erasure or rebuild, it is the snapshot that is live already; in a rollback that of the restored generation; in a
    bootstrap 0. `request_uri`: the dedup job's request; empty for a rollback, which has none.

    A rollback `restores` an earlier generation: from its files, or, with `restored_at`, by a clone of staging as of
    that time. A rebuild (`rebuilds`) writes the live generation's rows in the form of a changed feed file.
    """

    feed: str
    generation: int
    attempt: str
    parent: int | None
    engine: Engine
    snapshot_id: int
    request_uri: str
    reason: str
    restores: int | None = None
    restored_at: datetime | None = None
    accepted_checks: tuple[str, ...] = ()
    dates: tuple[date, ...] | None = None
    rebuilds: bool = False


# The parameters of publish/swap_target.sql that are fields of SwapSpec, with their BigQuery types.
SWAP_PARAMETERS = {
    "parent": "STRING",
    "generation": "STRING",
    "checked_at": "TIMESTAMP",
    "snapshot": "STRING",
    "manifest": "STRING",
    "description": "STRING",
    "expiration_days": "FLOAT64",
}


@dataclass(frozen=True)
class SwapSpec:
    """What was checked and is allowed to go live: staging as of `checked_at`.

    `generation`, `parent` and `snapshot` are text, because the swap's SQL takes them as text parameters; `parent` is
    empty for a first generation. `manifest` is the manifest's digest. `description`, `expiration_days`: the text, and
    the days for which target keeps a partition, that the swap sets on target. `bytes_billed` is that of the checks'
    queries. `staging_bytes`: logical size of the checked table. `options`: the feed file's options that the swap sets
    on target (see warehouse/table_options.py).
    """

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
    options: dict[str, str] = field(default_factory=dict)
