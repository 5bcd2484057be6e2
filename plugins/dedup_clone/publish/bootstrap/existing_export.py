"""Export task of a bootstrap or a rebuild: exports the table to files in state, and writes the dedup request for them.

The exported files are the only delivery of that request. The dedup job handles them like landed files, except that each
row keeps the update id that it has. `drop_export` deletes the files after the commit.
"""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import Plan, RequestedDelivery
from dedup_clone.publish.bootstrap.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.planning.dedup_request import build_dedup_request
from dedup_clone.publish.planning.partition_export import export_folder, export_partitions, wrong_row_counts
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.store import ObjectInfo

# The delivery of the exported files. Its snapshot id is above every update id that a row may have, so that no row
# counts as newer than its delivery.
EXPORT_DELIVERY = Delivery(snapshot_id=2**63 - 2, marker_generation=1)


def export_existing(services: Services, attempt: str) -> None:
    """Export the table whose rows `attempt` takes over, and write the attempt's request. Safe to repeat.

    Raises BootstrapRefused when the table was changed or exported with other row counts, LostRace without the lease,
    and what `read_bootstrap_record` and `export_partitions` raise.
    """
    intent, record = services.current.require_intent(attempt), read_bootstrap_record(services, attempt)
    existing, folder = record.existing, export_folder(services, attempt)
    require_unchanged(services, existing)
    services.log(
        f"exports {len(existing.partitions)} dates of [{existing.name}] to [{services.store.uri(folder)}]",
        generation=intent.generation,
    )
    table = {"projectId": services.names.project, "datasetId": existing.dataset, "tableId": existing.table}
    rows = {partition.date: partition.rows for partition in existing.partitions}
    files = export_partitions(services, attempt, table, rows, partition_column=services.feed.table.partition_column)
    require_unchanged(services, existing)
    wrong = wrong_row_counts(files, rows)
    if wrong:
        raise BootstrapRefused(
            f"The export of table [{existing.name}] has other row counts than the table: {'; '.join(wrong[:5])}. "
            f"Target was not changed. If row access policies hide rows from the account that exports, grant that "
            f"account all rows. Then clear the run from its first task, which exports the table anew."
        )
    arrival_uri = _write_arrival(services, intent, folder, [file.info for file in files])
    services.current.require_intent(attempt)
    rebuilt = None if intent.parent is None else services.manifests.read(intent.parent)  # a bootstrap has no parent
    request = build_dedup_request(
        services,
        intent,
        engine=Engine.SPARK,
        plan=Plan.REWRITE,
        date_folders=True,
        oldest=existing.oldest,
        latest=existing.latest,
        deliveries=(RequestedDelivery(EXPORT_DELIVERY, arrival_uri),),
        folded=rebuilt.deliveries if rebuilt else (),
        excluded=rebuilt.excluded if rebuilt else (),
        takes_over=record.duplicates,
    )
    if rebuilt:
        newest = {e.date: e.newest_snapshot for e in rebuilt.dates if e.newest_snapshot is not None}
        request = replace(request, newest_snapshots=newest)
    services.manifests.write_request(request)


def drop_export(services: Services, attempt: str) -> int:
    """Delete the exported files, which nothing reads after the commit. Returns the number of files."""
    return services.store.delete_prefix(export_folder(services, attempt))


def _write_arrival(services: Services, intent: Intent, folder: str, objects: list[ObjectInfo]) -> str:
    """Write an arrival record of the exported files, and return its URI.

    The record lies outside `arrivals/`, so that no publish takes the files for a landed delivery.
    """
    name = services.layout.exported_arrival(intent.attempt)
    arrival = Arrival(
        feed=services.feed.feed,
        delivery=EXPORT_DELIVERY,
        bucket=services.store.bucket,
        folder=folder,
        marker=f"{folder}_SUCCESS",
        arrived_at=intent.taken_at,
        objects=tuple(LandedObject(o.name, o.object_generation, o.crc32c, o.size) for o in objects),
        late_objects=(),
    )
    services.store.put(name, to_json(arrival))
    return services.store.uri(name)
