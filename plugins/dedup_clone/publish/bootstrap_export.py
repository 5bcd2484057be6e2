"""Second step of a bootstrap: the table's rows as files in state, date by date, and the dedup request over them.

Extract jobs are free. To the job the files are the one delivery of a request that takes a table over: it judges them as
any landed file, but for the update ids, which the rows keep. They are deleted with the attempt's own files.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import dedup_clone
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.manifest import FORMAT_VERSION
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import DedupRequest, Plan, RequestedDelivery, SourceFormat
from dedup_clone.publish.existing_table import ExistingPartition, TakenOver, read_taken_over, require_unchanged
from dedup_clone.publish.export import PARALLEL_JOBS, export_date, export_folder
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.parquet_footer import read_footers
from dedup_clone.state.store import ObjectInfo

# Above every update id that a row may have, and so above them in precedence: none is left out.
EXPORT = Delivery(snapshot_id=2**63 - 2, marker_generation=1)


def export_existing(services: Services, attempt: str) -> None:
    """Export the table that `attempt` takes over, and write the attempt's request. Safe to do twice.

    Raises BootstrapRefused when the table was changed meanwhile, LostRace without the lease, JobFailed.
    """
    intent, taken = services.current.require_intent(attempt), read_taken_over(services, attempt)
    existing, folder = taken.existing, export_folder(services, attempt)
    require_unchanged(services, existing)
    services.fact(
        f"exports {len(existing.partitions)} dates of [{existing.name}] to [{services.store.uri(folder)}]",
        generation=intent.generation,
    )
    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        list(pool.map(lambda partition: _export(services, attempt, taken, partition), existing.partitions))
    require_unchanged(services, existing)
    objects = sorted((o for o in services.store.objects(folder) if o.size), key=lambda o: o.name)
    _require_complete(services, taken, folder, objects)
    arrival_uri = _write_arrival(services, intent, folder, objects)
    services.current.require_intent(attempt)
    services.manifests.write_request(_request(services, intent, taken, arrival_uri))


def drop_export(services: Services, attempt: str) -> int:
    """Delete the exported files, which nothing needs once the generation is committed; returns how many."""
    return services.store.delete_folder(export_folder(services, attempt))


def _export(services: Services, attempt: str, taken: TakenOver, partition: ExistingPartition) -> None:
    source = {
        "projectId": services.names.project,
        "datasetId": taken.existing.dataset,
        "tableId": f"{taken.existing.table}${partition.date:%Y%m%d}",
    }
    folder = f"{export_folder(services, attempt)}{services.feed.table.partition_column}={partition.date}/"
    export_date(services, attempt, partition.date, source, folder)


def _require_complete(services: Services, taken: TakenOver, folder: str, objects: list[ObjectInfo]) -> None:
    rows: Counter[date] = Counter()
    for info, footer in zip(objects, read_footers(services.store, [o.name for o in objects]), strict=True):
        rows[date.fromisoformat(info.name.removeprefix(folder).split("/")[0].partition("=")[2])] += footer.rows
    wrong = [
        f"{p.date}: {rows[p.date]} rows, expected {p.rows}" for p in taken.existing.partitions if rows[p.date] != p.rows
    ]
    if wrong:
        raise BootstrapRefused(
            f"The export of table [{taken.existing.name}] has other rows than its partitions: {'; '.join(wrong[:5])}. "
            f"Target was not changed. Row access policies hide rows from whoever exports; else clear the run from its "
            f"first task, which exports anew."
        )


def _write_arrival(services: Services, intent: Intent, folder: str, objects: list[ObjectInfo]) -> str:
    """Outside `arrivals/`: it is nothing that waits to be published."""
    name = services.layout.exported_arrival(intent.attempt)
    arrival = Arrival(
        feed=services.feed.feed,
        delivery=EXPORT,
        bucket=services.store.bucket,
        folder=folder,
        marker=f"{folder}_SUCCESS",
        arrived_at=intent.taken_at,
        objects=tuple(LandedObject(o.name, o.generation, o.crc32c, o.size) for o in objects),
        late_objects=(),
    )
    services.store.put(name, to_json(arrival))
    return services.store.uri(name)


def _request(services: Services, intent: Intent, taken: TakenOver, arrival_uri: str) -> DedupRequest:
    feed, layout = services.feed, services.layout
    return DedupRequest(
        format_version=FORMAT_VERSION,
        feed=feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        run_id=intent.run_id,
        code_version=dedup_clone.__version__,
        table=feed.table.to_contract(),
        update_id_mode=feed.update_id_mode,
        engine=Engine.SPARK,
        source_format=SourceFormat.PARQUET,
        date_folders=True,
        plan=Plan.REWRITE,
        retention_day=taken.existing.oldest,
        latest_day=taken.existing.latest,
        deliveries=(RequestedDelivery(EXPORT, arrival_uri),),
        folded=(),
        excluded=(),
        parent=None,
        data_uri=services.store.uri(layout.data_folder(intent.attempt)),
        attempt_uri=services.store.uri(layout.attempt_folder(intent.attempt)),
        exact=feed.dedup.exact,
        compare_values=feed.dedup.compare_values,
        file_bytes=feed.dedup.file_megabytes << 20,
        takes_over=taken.duplicates,
    )
