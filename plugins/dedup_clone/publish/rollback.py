"""First step of a rollback: an earlier generation's content becomes a new generation, ready for load, check and swap.

It is restored by cloning staging as it was when that generation was checked (nothing is loaded), else from its files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import dedup_clone
from dedup_clone.contract.errors import ConfigurationError, RollbackRefused
from dedup_clone.contract.manifest import Candidate, DedupMetrics, FileList, Manifest
from dedup_clone.publish.backlog import excluded_after
from dedup_clone.publish.healing import heal
from dedup_clone.publish.lease import take_lease
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap_files import find_swap
from dedup_clone.state.current import Intent, IntentKind
from dedup_clone.state.index import published_records

RESTORED = "restored"  # the plan of a date whose rows were made live again
GENERATIONS_OFFERED = 50
# The clone must still be possible when the approved swap runs.
TIME_TRAVEL_MARGIN = timedelta(hours=1)


@dataclass(frozen=True)
class RollbackTrigger:
    """Which generation's content is to be live again, and why. `live_shown` was live when the difference was shown."""

    dag_id: str
    run_id: str
    generation: int
    live_shown: int
    reason: str


@dataclass(frozen=True)
class Restorable:
    """A generation that can be made live again: by time travel to `restored_at`, or from its files (None)."""

    manifest: Manifest
    snapshot_id: int
    swapped_at: datetime
    restored_at: datetime | None


def restorable_generations(services: Services) -> list[Restorable]:
    """What a rollback may choose from, newest first; the live generation is not among them."""
    live, oldest = services.current.read().generation, _oldest_in_time_travel(services)
    found = []
    for record in reversed(published_records(services.store, services.feed.feed)[-GENERATIONS_OFFERED:]):
        if record.generation != live and record.swapped_at:
            manifest = services.manifests.read(record.generation)
            restored_at = _in_time_travel(services, manifest, oldest)
            if restored_at or services.manifests.files_are_there(manifest):
                found.append(Restorable(manifest, record.snapshot_id, record.swapped_at, restored_at))
    return found


def choose_generation(services: Services, generation: int) -> Restorable:
    """Raises ConfigurationError when it cannot be restored: names those that can."""
    restorable = restorable_generations(services)
    offered = {r.manifest.generation: r for r in restorable}
    if generation not in offered:
        raise ConfigurationError(
            f"Generation [{generation}] of [{services.feed.feed}] cannot be made live again: it is live, was "
            f"never published, or is neither within BigQuery's time travel nor among the kept files. "
            f"Choose one of: {_offer(restorable)}; or replay a snapshot."
        )
    return offered[generation]


def _offer(restorable: list[Restorable]) -> str:
    return ", ".join(f"{r.manifest.generation} (snapshot {r.snapshot_id})" for r in restorable) or "none"


def resolve_rollback(services: Services, trigger: RollbackTrigger) -> PublishOrder:
    """Heal, take the lease, hand back the restored generation as this attempt's candidate.

    Raises LeaseHeld (a publish is at work), RollbackRefused (another generation is live than the one that whoever
    approved saw), ConfigurationError (not restorable: names those that are), LostRace.
    """
    heal(services, dag_id=trigger.dag_id, run_id=trigger.run_id)
    live = services.current.read().generation
    if live != trigger.live_shown:
        raise RollbackRefused(
            f"Generation [{live}] of [{services.feed.feed}] is live by now, expected [{trigger.live_shown}], which the "
            f"approved difference was made from. Nothing was changed: trigger the rollback again to see what it would "
            f"change now. It can restore: {_offer(restorable_generations(services))}."
        )
    wanted = choose_generation(services, trigger.generation)
    intent = take_lease(services, IntentKind.ROLLBACK, trigger, parent=trigger.live_shown)
    manifest = _restored(services, wanted, intent, services.manifests.read(trigger.live_shown))
    services.manifests.write_candidate(intent.attempt, _candidate(services, wanted, manifest))
    services.fact(
        f"takes the lease for attempt [{intent.attempt}]: restores generation {wanted.manifest.generation} "
        + (f"as staging was at {wanted.restored_at:%Y-%m-%d %H:%M:%S} UTC" if wanted.restored_at else "from its files")
        + f", excludes {[d.name for d in manifest.excluded]}",
        snapshot_id=wanted.snapshot_id,
        generation=intent.generation,
    )
    return PublishOrder(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=manifest.engine,
        snapshot_id=wanted.snapshot_id,
        request_uri="",
        restores=wanted.manifest.generation,
        restored_at=wanted.restored_at,
        accepted_checks=(),
        reason=trigger.reason,
    )


def _oldest_in_time_travel(services: Services) -> datetime | None:
    """How far back staging can be cloned; None when there is no staging."""
    staging = services.warehouse.table(services.feed.staging)
    if staging is None:
        return None
    window = services.warehouse.time_travel_window() - TIME_TRAVEL_MARGIN
    return max(services.now() - window, staging.created_at)


def _in_time_travel(services: Services, manifest: Manifest, oldest: datetime | None) -> datetime | None:
    """When staging held exactly this generation, if BigQuery can still show it."""
    swap = find_swap(services, manifest.attempt)
    return swap.checked_at if swap and oldest and swap.checked_at > oldest else None


def _restored(services: Services, wanted: Restorable, intent: Intent, live: Manifest) -> Manifest:
    source = wanted.manifest
    has_files = services.manifests.files_are_there(source)
    reason = f"content of generation {source.generation}"
    return replace(
        source,
        generation=intent.generation,
        parent=intent.parent,
        restores=source.generation,
        data_folder=source.data_folder if has_files else None,
        file_list_digest=source.file_list_digest if has_files else "",
        excluded=excluded_after(services, live, source),
        applied=(),
        code_version=dedup_clone.__version__,
        run_id=intent.run_id,
        attempt=intent.attempt,
        created_at=services.now(),
        dropped_rows=0,
        dates=tuple(
            replace(e, new_keys=0, changed=None, ties=0, plan=RESTORED, plan_reason=reason) for e in source.dates
        ),
    )


def _candidate(services: Services, wanted: Restorable, manifest: Manifest) -> Candidate:
    files = services.manifests.files(wanted.manifest.generation)
    file_list_uri = load_uris_uri = None
    if files is not None and manifest.data_folder is not None:
        file_list_uri = services.store.uri(services.layout.file_list(wanted.manifest.generation))
        load_uris_uri = _write_uris(services, manifest, files)
    return Candidate(manifest, file_list_uri, load_uris_uri, (), (), (), DedupMetrics(0, 0, {}))


def _write_uris(services: Services, manifest: Manifest, files: FileList) -> str:
    name = f"{services.layout.attempt_folder(manifest.attempt)}uris.txt"
    services.store.put(name, "".join(f"{manifest.data_folder}{file.path}\n" for file in files.files))
    return services.store.uri(name)
