"""First task of an erasure after the approval: acquires the lease, prepares staging, writes the dedup job's request.

The new generation is the live one without the rows of the named keys. It is loaded, checked and swapped in like any
other generation, so readers see one change.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.erasure import KeysToErase, parse_keys
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import Plan
from dedup_clone.publish.check import check_before_dedup
from dedup_clone.publish.planning.declared_changes import refuse_impossible_changes
from dedup_clone.publish.planning.dedup_request import build_dedup_request
from dedup_clone.publish.planning.parent_generation import parent_reference, require_readable_parent
from dedup_clone.publish.planning.staging_table import prepare_staging
from dedup_clone.publish.records.erasure_records import erasure_uris
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec


@dataclass(frozen=True)
class ErasureRequest:
    """The form of an erasure run. `keys_file`: the name of the file in the feed's folder `to_erase/` in state."""

    dag_id: str
    run_id: str
    keys_file: str
    reason: str


def resolve_erasure(services: Services, erasure_request: ErasureRequest) -> PublishSpec:
    """Recover a dead run, acquire the lease, prepare staging, write the dedup request. Returns the spec.

    Raises LeaseHeld, LostRace, and what `CurrentFile.read_for`, `read_keys`, `recover`, `require_erasable` and
    `parent_reference` raise.
    """
    dag_id, run_id = erasure_request.dag_id, erasure_request.run_id
    services.current.read_for(services.environment)
    read_keys(services, erasure_request.keys_file)
    recover(services, dag_id=dag_id, run_id=run_id)
    live = require_erasable(services)
    intent = services.current.acquire_lease(
        services.environment, live.generation, Kind.ERASE, dag_id=dag_id, run_id=run_id, now=services.now()
    )
    prepare_staging(services)  # the new generation has the columns that the feed file declares by now
    oldest, latest = services.retention_window()
    request = build_dedup_request(
        services,
        intent,
        engine=Engine.SPARK,
        plan=Plan.AUTO,
        date_folders=services.feed.landing.date_folders,
        oldest=oldest,
        latest=latest,
        deliveries=(),
        folded=live.deliveries,
        excluded=live.excluded,
        parent=parent_reference(services, intent.attempt, live, Engine.SPARK, oldest=oldest),
        erasures=erasure_uris(services, live.generation),
        erases=services.store.uri(services.layout.keys_to_erase(erasure_request.keys_file)),
    )
    services.log(
        f"acquired the lease for attempt [{intent.attempt}]: erases the keys of [{request.erases}]",
        snapshot_id=live.snapshot_id,
        generation=intent.generation,
    )
    return PublishSpec(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=intent.parent,
        engine=Engine.SPARK,
        snapshot_id=live.snapshot_id,
        request_uri=services.manifests.write_request(request),
        reason=erasure_request.reason,
    )


def require_erasable(services: Services) -> Manifest:
    """The live generation's manifest.

    Raises ConfigurationError if no generation is live or the feed's engine is not `spark`, and what
    `refuse_impossible_changes`, `check_before_dedup` and `require_readable_parent` raise.
    """
    feed, generation = services.feed, services.current.read().generation
    if generation is None:
        raise ConfigurationError(
            f"Feed [{feed.feed}] has no live generation, so there is nothing to erase: publish a snapshot first."
        )
    if feed.engine is not Engine.SPARK:
        raise ConfigurationError(
            f"Feed [{feed.feed}] has engine [{feed.engine}], which does not support erasures: set "
            f"[engine: {Engine.SPARK}] in the feed file, then erase."
        )
    live = services.manifests.read(generation)
    refuse_impossible_changes(services, Engine.SPARK, live)
    check_before_dedup(services, generation, with_sql=False)
    require_readable_parent(services, live, Engine.SPARK)
    return live


def read_keys(services: Services, keys_file: str) -> KeysToErase:
    """The keys of the file. Raises ConfigurationError if it is absent or malformed."""
    name = services.layout.keys_to_erase(keys_file)
    stored = services.store.read(name) if keys_file else None
    if stored is None:
        raise ConfigurationError(
            f"There is no file of keys [{services.store.uri(name)}]: upload it, and name it in the form without its "
            f"folder (docs/erase-keys.md)."
        )
    return parse_keys(stored.text, services.feed.table.to_contract())
