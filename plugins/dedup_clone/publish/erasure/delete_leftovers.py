"""Last task of an erasure: deletes what may still contain the erased keys, and the file that names them."""

from __future__ import annotations

from dedup_clone.publish.prune import prune
from dedup_clone.publish.records.index_refresh import refresh_index
from dedup_clone.publish.services import Services


def delete_leftovers(services: Services, keys_file: str) -> list[str]:
    """Delete the folders of earlier generations, examples on the page, an SQL engine's table, and the file of keys.

    Returns the deleted folders. Safe to repeat.
    """
    folders = prune(services)
    refresh_index(services)  # its check results of earlier attempts name examples
    services.warehouse.changes.drop(services.names.incoming_table)
    for info in services.store.stat([services.layout.keys_to_erase(keys_file)]):
        services.store.delete(info.name, expected_object_generation=info.object_generation)
    services.log(f"deleted {len(folders)} folders of earlier generations, and the file of keys")
    return folders
