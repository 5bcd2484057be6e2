"""Prune task: delete the data folders and attempt folders that are no longer needed."""

from __future__ import annotations

from dedup_clone.publish.records.erasure_records import last_erasure_generation
from dedup_clone.publish.records.held_deliveries import kept_folders
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Current
from dedup_clone.state.layout import names_up_to
from dedup_clone.state.reporting_backlog import CHANGES, ReportingBacklog

# The committed generation and its parent. Within BigQuery's time travel, a rollback to an older one needs no files.
GENERATIONS_WITH_DATA = 2
# Attempt folders stay for this many generation numbers, counted back from the live generation's.
GENERATIONS_WITH_ATTEMPT_FOLDERS = 100


def prune(services: Services) -> list[str]:
    """Delete all data folders except those of the committed generation and its parent; returns the deleted folders.

    Folders of a running attempt stay. Attempt folders (request, check results) of the last
    GENERATIONS_WITH_ATTEMPT_FOLDERS generations stay, and changes until they are loaded into `FEED_changes`. No such
    folder of a generation before the last erasure stays.
    """
    current = services.current.read()
    if current.generation is None:
        return []
    erasure_generation = last_erasure_generation(services, current.generation)
    needed = _needed_folders(services, current.generation, erasure_generation)
    folders = names_up_to(services.store.folders(services.layout.data), current.generation)
    obsolete = [folder for folder in folders if not any(name.startswith(folder) for name in needed)]
    last_obsolete = max(current.generation - GENERATIONS_WITH_ATTEMPT_FOLDERS, erasure_generation - 1)
    obsolete += names_up_to(services.store.folders(services.layout.attempts), last_obsolete)
    obsolete += data_of_ended_attempts(services, current)
    obsolete += _obsolete_changes(services, current.generation, erasure_generation)
    for folder in obsolete:
        count = services.store.delete_prefix(folder)
        services.log(f"pruned [{folder}], {count} objects", generation=current.generation)
    return obsolete


def data_of_ended_attempts(services: Services, current: Current) -> list[str]:
    """The data folders of the failed attempts since the live generation; none while a run holds the lease.

    The folders of `kept_folders` are left out, because a replay may use them. Folders of exports are left out: the
    export of a retirement may be all that is left of target. While no generation is live, as after a recovery without
    records, no folder is returned.
    """
    if current.intent is not None or current.generation is None:
        return []
    folders = services.store.folders(services.layout.data)
    live = names_up_to(folders, current.generation)
    ended = names_up_to(folders, current.last_generation)
    kept = {*live, *kept_folders(services, services.manifests.read(current.generation))}
    return [folder for folder in ended if folder not in kept and not folder.endswith("-export/")]


def _obsolete_changes(services: Services, generation: int, erasure_generation: int) -> list[str]:
    """Return the folders of changes, up to `generation`, that no load into `FEED_changes` needs any more.

    `erasure_generation`: that of the last erasure, 0 without one; changes of earlier generations are not loaded any
    more.
    """
    pending = [rows.attempt for rows in ReportingBacklog(services.store, CHANGES).waiting(services.feed.feed)]
    needed = {
        services.layout.changes_folder(a) for a in pending if a not in names_up_to(pending, erasure_generation - 1)
    }
    folders = names_up_to(services.store.folders(services.layout.changes), generation)
    return [folder for folder in folders if folder not in needed]


def _needed_folders(services: Services, generation: int | None, erasure_generation: int) -> set[str]:
    """Return the data folders of the generation and its parent, relative to the state bucket's URI.

    A parent from before the last erasure is not needed.
    """
    needed: set[str] = set()
    for _ in range(GENERATIONS_WITH_DATA):
        if generation is None or generation < erasure_generation:
            break
        manifest = services.manifests.read(generation)
        if manifest.data_folder is not None:
            needed.add(manifest.data_folder.removeprefix(services.store.uri("")))
        generation = manifest.parent
    return needed
