"""Finds manifests of committed generations that are gone or damaged, and their copies in the candidates of attempts."""

from __future__ import annotations

from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.contract.records import digest, to_json
from dedup_clone.publish.lost_records.record_change import RecordChange, change_to
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import SwapSpec
from dedup_clone.state.layout import generation_of
from dedup_clone.state.ledger import LedgerRecord, Outcome


def sound_manifest(services: Services, generation: int) -> Manifest | None:
    """The stored manifest of the generation; None if it is gone or damaged."""
    manifest = services.store.read_if_sound(Manifest, services.layout.manifest(generation))
    return manifest if manifest is not None and manifest.generation == generation else None


def find_last_committed(services: Services) -> Manifest | None:
    """The sound manifest of the highest generation. Manifests are written after the swap."""
    names = [info.name for info in services.store.objects(services.layout.manifests)]
    generations = {number for number in map(generation_of, names) if number is not None}
    sound = (sound_manifest(services, number) for number in sorted(generations, reverse=True))
    return next((manifest for manifest in sound if manifest is not None), None)


def find_live_manifest(services: Services, generation: int, labelled_digest: str | None) -> Manifest | None:
    """The manifest of `generation`, which target holds: the stored one if it is sound, else a proven candidate's.

    `labelled_digest`: the manifest's digest, from target's label; None if target has no such label. A candidate of this
    generation is proven if the label has the digest of its manifest, or the digest in the record of its attempt's swap.
    None if there is no such manifest.
    """
    manifest = sound_manifest(services, generation)
    if manifest is not None:
        return manifest
    for attempt in _attempts(services):
        candidate = services.store.read_if_sound(Candidate, services.layout.candidate(attempt))
        if candidate is None or candidate.manifest is None or candidate.manifest.generation != generation:
            continue
        swap = services.store.read_if_sound(SwapSpec, services.layout.swap_spec(attempt))
        swapped_digest = None if swap is None else swap.manifest
        if labelled_digest is not None and labelled_digest in (candidate.manifest.digest, swapped_digest):
            return candidate.manifest
    return None


def find_lost_manifests(services: Services, live: int | None) -> list[Manifest]:
    """Copies, from candidates, of published generations' manifests that are gone or damaged.

    `live`: the generation that target holds, which is left out; None if target names none.
    """
    found = []
    for attempt in _attempts(services):
        record = services.store.read_if_sound(LedgerRecord, services.layout.ledger_record(attempt))
        if record is None or record.outcome is not Outcome.PUBLISHED or record.generation == live:
            continue
        if sound_manifest(services, record.generation) is None:
            candidate = services.store.read_if_sound(Candidate, services.layout.candidate(attempt))
            if candidate is not None and candidate.manifest is not None:
                found.append(candidate.manifest)
    return found


def manifest_changes(services: Services, manifest: Manifest, *, is_live: bool) -> list[RecordChange]:
    """The changes that store the generation's manifest and file list again as they were committed.

    If a file list is damaged and no copy is left, it is deleted. `is_live`: whether target holds the generation.
    """
    store, layout, generation = services.store, services.layout, manifest.generation
    changes = []
    if sound_manifest(services, generation) is None:
        reason = f"copied from the candidate of attempt [{manifest.attempt}]"
        changes.append(change_to(store, layout.manifest(generation), to_json(manifest), reason))
    name = layout.file_list(generation)
    stored = store.read(name)
    if manifest.data_folder is None or (stored is not None and digest(stored.text) == manifest.file_list_digest):
        return changes
    copy = _copied_file_list(services, manifest)
    if copy is not None:
        changes.append(change_to(store, name, copy, f"copied from attempt [{manifest.attempt}]"))
    elif stored is not None and store.parse_if_sound(FileList, name, stored) is None:
        consequence = "the next publish exports target" if is_live else "no rollback can load the generation's files"
        changes.append(change_to(store, name, None, f"damaged, and no copy is left: {consequence}"))
    return changes


def _copied_file_list(services: Services, manifest: Manifest) -> str | None:
    candidate = services.store.read_if_sound(Candidate, services.layout.candidate(manifest.attempt))
    if candidate is None or candidate.file_list_uri is None:
        return None
    stored = services.store.read(candidate.file_list_uri.removeprefix(services.store.uri("")))
    return stored.text if stored is not None and digest(stored.text) == manifest.file_list_digest else None


def _attempts(services: Services) -> list[str]:
    folders = services.store.folders(services.layout.attempts)
    return [folder.rstrip("/").rsplit("/", 1)[1] for folder in folders]
