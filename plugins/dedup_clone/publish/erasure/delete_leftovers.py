"""Last task of an erasure: deletes what may still contain the erased keys, and the file that names them."""

from __future__ import annotations

from dedup_clone.publish.erasure.erase_changes import erase_changes
from dedup_clone.publish.erasure.erasure_records import last_erasure
from dedup_clone.publish.erasure.resolve_erasure import read_keys
from dedup_clone.publish.prune import prune
from dedup_clone.publish.records.index_refresh import refresh_index
from dedup_clone.publish.services import Services


def delete_leftovers(services: Services, keys_file: str) -> list[str]:
    """Delete the keys' rows in `FEED_changes`, the folders of earlier generations, examples of keys on the page, the
    incoming table of an SQL engine, and the file of keys.

    Returns the deleted folders. Safe to repeat.
    """
    keys_name = services.layout.keys_to_erase(keys_file)
    current = services.current.read().generation
    if services.store.read(keys_name) is not None:  # else an earlier try has deleted everything
        erase_changes(services, last_erasure(services, current), read_keys(services, keys_file))
    folders = prune(services)
    refresh_index(services)  # it has check results of earlier attempts, with examples of keys
    services.warehouse.changes.drop(services.names.incoming_table)
    for info in services.store.stat([keys_name]):
        services.store.delete(info.name, expected_object_generation=info.object_generation)
    services.log(f"deleted {len(folders)} folders of earlier generations, and the file of keys")
    return folders
