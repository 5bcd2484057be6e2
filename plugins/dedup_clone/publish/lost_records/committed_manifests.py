"""Finds manifests of committed generations that are gone, and their copies in the candidates of attempts."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import digest, to_json
from dedup_clone.publish.services import Services
from dedup_clone.state.layout import generation_of
from dedup_clone.state.ledger import Outcome
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class RecordChange:
    """One object to write; `reason` tells the operator why.

    `object_generation` is that of the object as it was read (0: it was absent). The change fails if the object has
    another object generation when the change is made.
    """

    name: str
    text: str
    object_generation: int
    reason: str


def change_to(store: ObjectStore, name: str, text: str, reason: str) -> RecordChange:
    """The change of object `name`, to be made only if the object still has its present object generation."""
    stored = store.read(name)
    return RecordChange(name, text, 0 if stored is None else stored.object_generation, reason)


def find_last_committed(services: Services) -> Manifest | None:
    """The manifest of the highest generation; None if there is none. Manifests are written after the swap."""
    numbers = [generation_of(info.name) for info in services.store.objects(services.layout.manifests)]
    last = max((number for number in numbers if number is not None), default=None)
    return None if last is None else services.manifests.find(last)


def find_live_manifest(services: Services, generation: int, labelled_digest: str | None) -> Manifest | None:
    """The manifest of `generation`, which target holds: the stored one, else that of a candidate.

    `labelled_digest`: the manifest's digest, from target's label; None if target has no such label. A candidate's
    manifest must have this digest. None if there is no such manifest.
    """
    manifest = services.manifests.find(generation)
    if manifest is not None:
        return manifest
    for attempt in _attempts(services):
        candidate = services.manifests.candidate(attempt)
        if candidate is None or candidate.manifest is None or candidate.manifest.generation != generation:
            continue
        if candidate.manifest.digest == labelled_digest:
            return candidate.manifest
    return None


def find_lost_manifests(services: Services, live: int | None) -> list[Manifest]:
    """Copies, from candidates, of published generations' manifests that are gone.

    `live`: the generation that target holds, which is left out; None if target names none.
    """
    found = []
    for attempt in _attempts(services):
        record = services.ledger.read(attempt)
        if record is None or record.outcome is not Outcome.PUBLISHED or record.generation == live:
            continue
        if services.manifests.find(record.generation) is None:
            candidate = services.manifests.candidate(attempt)
            if candidate is not None and candidate.manifest is not None:
                found.append(candidate.manifest)
    return found


def manifest_changes(services: Services, manifest: Manifest) -> list[RecordChange]:
    """The changes that store the generation's manifest and file list again as they were committed."""
    store, layout, generation = services.store, services.layout, manifest.generation
    changes = []
    if services.manifests.find(generation) is None:
        reason = f"copied from the candidate of attempt [{manifest.attempt}]"
        changes.append(change_to(store, layout.manifest(generation), to_json(manifest), reason))
    name = layout.file_list(generation)
    stored = store.read(name)
    if manifest.data_folder is None or (stored is not None and digest(stored.text) == manifest.file_list_digest):
        return changes
    copy = _copied_file_list(services, manifest)
    if copy is not None:
        changes.append(change_to(store, name, copy, f"copied from attempt [{manifest.attempt}]"))
    return changes


def _copied_file_list(services: Services, manifest: Manifest) -> str | None:
    candidate = services.manifests.candidate(manifest.attempt)
    if candidate is None or candidate.file_list_uri is None:
        return None
    stored = services.store.read(candidate.file_list_uri.removeprefix(services.store.uri("")))
    return stored.text if stored is not None and digest(stored.text) == manifest.file_list_digest else None


def _attempts(services: Services) -> list[str]:
    folders = services.store.folders(services.layout.attempts)
    return [folder.rstrip("/").rsplit("/", 1)[1] for folder in folders]
