"""Prune task: delete the data folders and attempt folders that are no longer needed."""

from __future__ import annotations

from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services

# The committed generation and its parent. BigQuery's time travel restores older generations without files, for the
# days that the dataset's time travel window has.
GENERATIONS_WITH_DATA = 2
ATTEMPT_FOLDERS_RETAINED = 100


def prune(services: Services) -> list[str]:
    """Delete all data folders except those of the committed generation and its parent; returns the deleted folders.

    Folders of later generations belong to a running attempt and stay. Attempt folders (request, check results) stay
    for a hundred generations.
    """
    current = services.current.read()
    if current.generation is None:
        return []
    needed = _needed_folders(services, current.generation)
    obsolete = [
        folder
        for folder in services.store.folders(services.layout.data)
        if not any(name.startswith(folder) for name in needed) and _generation(folder) <= current.generation
    ]
    obsolete += [
        folder
        for folder in services.store.folders(services.layout.attempts)
        if _generation(folder) <= current.generation - ATTEMPT_FOLDERS_RETAINED
    ]
    for folder in obsolete:
        count = services.store.delete_folder(folder)
        services.log(f"pruned [{folder}], {count} objects", generation=current.generation)
    return obsolete


def obsolete_after_next_publish(services: Services, live: Manifest | None) -> list[str]:
    """Return the data folders that the next publish prunes. `live` will be the parent, so its own folder stays."""
    if live is None:
        return []
    live_folder = (live.data_folder or "").removeprefix(services.store.uri(""))
    folders = services.store.folders(services.layout.data)
    return [f for f in folders if not live_folder.startswith(f) and _generation(f) <= live.generation]


def _needed_folders(services: Services, generation: int | None) -> set[str]:
    """Return the data folders of the generation and its parent; each is the folder of one run of an attempt."""
    needed: set[str] = set()
    for _ in range(GENERATIONS_WITH_DATA):
        if generation is None:
            break
        manifest = services.manifests.read(generation)
        if manifest.data_folder is not None:
            needed.add(manifest.data_folder.removeprefix(services.store.uri("")))
        generation = manifest.parent
    return needed


def _generation(folder: str) -> int:
    """Return 42 for `feed/data/00000042-1a2b3c/`."""
    return int(folder.rstrip("/").rsplit("/", 1)[1].split("-")[0])
