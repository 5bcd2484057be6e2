"""Prune step: delete the data folders that nothing needs any more."""

from __future__ import annotations

from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services

GENERATIONS_KEPT = 2  # BigQuery's time travel keeps seven days of target for free
ATTEMPTS_KEPT = 100


def prune(services: Services) -> list[str]:
    """Delete data folders older than the committed generation but for its parent's; returns their names.

    Folders above the committed generation belong to an attempt at work and stay. Attempt folders (requests, verdicts)
    stay for the last hundred generations.
    """
    current = services.current.read()
    if current.generation is None:
        return []
    kept = _kept_folders(services, current.generation)
    doomed = [
        folder
        for folder in services.store.folders(services.layout.data)
        if folder not in kept and _generation(folder) <= current.generation
    ]
    doomed += [
        folder
        for folder in services.store.folders(services.layout.attempts)
        if _generation(folder) <= current.generation - ATTEMPTS_KEPT
    ]
    for folder in doomed:
        count = services.store.delete_folder(folder)
        services.fact(f"pruned [{folder}], {count} objects", generation=current.generation)
    return doomed


def doomed_by_next(services: Services, live: Manifest | None) -> list[str]:
    """The data folders that go once the generation after `live` is committed: its own and that of `live` stay."""
    if live is None:
        return []
    kept = (live.data_folder or "").removeprefix(services.store.uri(""))
    folders = services.store.folders(services.layout.data)
    return [folder for folder in folders if folder != kept and _generation(folder) <= live.generation]


def _kept_folders(services: Services, generation: int | None) -> set[str]:
    kept: set[str] = set()
    for _ in range(GENERATIONS_KEPT):
        if generation is None:
            break
        manifest = services.manifests.read(generation)
        if manifest.data_folder is not None:
            kept.add(manifest.data_folder.removeprefix(services.store.uri("")))
        generation = manifest.parent
    return kept


def _generation(folder: str) -> int:
    """`feed/data/00000042-1a2b3c/` is generation 42."""
    return int(folder.rstrip("/").rsplit("/", 1)[1].split("-")[0])
