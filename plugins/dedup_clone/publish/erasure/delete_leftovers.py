"""Last task of an erasure: deletes what may still contain the erased keys, and the file that names them."""

from __future__ import annotations

from dedup_clone.contract.erasure import Erasure
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.publish.erasure.erase_changes import erase_changes
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest, read_keys
from dedup_clone.publish.prune import prune
from dedup_clone.publish.records.erasure_records import complete_certificate, erasure_of_run
from dedup_clone.publish.records.index_refresh import refresh_index
from dedup_clone.publish.services import Services


def delete_leftovers(services: Services, erasure_request: ErasureRequest) -> list[str]:
    """Delete what the commit of the erasure left, and record in the erasure's record that this was done.

    What is deleted: the keys' rows in `FEED_changes`, the folders of earlier generations, examples of keys on the page,
    the incoming table of an SQL engine, and the file of keys.

    Returns the deleted folders; none if an earlier try has deleted them. Safe to repeat. Raises what `erase_changes`
    and `read_keys` raise, and ContractViolation if the run has committed no erasure.
    """
    erasure = erasure_of_run(services, erasure_request.run_id)
    if erasure is None:
        raise ContractViolation(
            f"Run [{erasure_request.run_id}] has no record in [{services.store.uri(services.layout.erasures)}], so it "
            f"has erased nothing: clear the run from its first task."
        )
    folders = [] if erasure.deleted_at else _delete(services, erasure, erasure_request.keys_file)
    for info in services.store.stat([services.layout.keys_to_erase(erasure_request.keys_file)]):
        services.store.delete(info.name, expected_object_generation=info.object_generation)
    services.log(f"deleted {len(folders)} folders of earlier generations, and the file of keys")
    return folders


def _delete(services: Services, erasure: Erasure, keys_file: str) -> list[str]:
    incoming = services.names.incoming_table
    change_rows = erase_changes(services, erasure, read_keys(services, keys_file))
    folders = prune(services)
    refresh_index(services)  # without check results of generations before the erasure, which have examples of keys
    dropped = [] if services.warehouse.table(incoming) is None else [incoming]
    services.warehouse.alterations.drop(incoming)
    complete_certificate(services, erasure.generation, deleted=folders, dropped=dropped, change_rows=change_rows)
    return folders
