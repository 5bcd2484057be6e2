"""Uses the candidate of an attempt that a check stopped again, if a replay would make the same one.

So accepting the check costs no second run of the dedup job: the replay's own candidate names the files of the stopped
attempt. From then on it is a publish like any other.
"""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, DedupMetrics, Manifest
from dedup_clone.publish.records.held_deliveries import HeldDelivery, find_held
from dedup_clone.publish.services import Services


def find_reusable_candidate(
    services: Services, attempt: Attempt, live: Manifest | None
) -> tuple[Attempt, Candidate] | None:
    """The attempt with the parent's files, and the candidate that it takes from an attempt that a check stopped.

    None if deliveries, parent, settings, days or code differ, or if files are gone.
    """
    deliveries = tuple(item.delivery for item in attempt.deliveries)
    for held in find_held(services, live):
        if deliveries == (held.delivery,) and _is_kept(held, live):
            return _take_over(services, attempt, held)
    return None


def kept_folders(services: Services, live: Manifest | None) -> set[str]:
    """The data folders of stopped attempts whose candidates may be used again while `live` is the live generation."""
    return {services.layout.data_folder(held.attempt) for held in find_held(services, live) if _is_kept(held, live)}


def is_reused(services: Services, attempt: str) -> bool:
    """Whether the attempt has a candidate from another attempt, so that no dedup job has to run."""
    candidate = services.manifests.candidate(attempt)
    return candidate is not None and bool(candidate.reused_from)


def _is_kept(held: HeldDelivery, live: Manifest | None) -> bool:
    return held.stopped_with == (held.delivery,) and held.parent == (None if live is None else live.generation)


def _take_over(services: Services, attempt: Attempt, held: HeldDelivery) -> tuple[Attempt, Candidate] | None:
    stopped = services.manifests.find_attempt(held.attempt)
    candidate = services.manifests.candidate(held.attempt)
    if stopped is None or candidate is None or candidate.manifest is None or stopped.changes or attempt.changes:
        return None
    as_stopped = replace(
        attempt,
        id=stopped.id,
        generation=stopped.generation,
        dag_id=stopped.dag_id,
        run_id=stopped.run_id,
        reason=stopped.reason,
        taken_at=stopped.taken_at,
        is_replay=stopped.is_replay,
        accepted_checks=stopped.accepted_checks,
        data_uri=stopped.data_uri,
        folder_uri=stopped.folder_uri,
        parent_files=stopped.parent_files,
    )
    if as_stopped != stopped or not _has_files(services, candidate, candidate.manifest):
        return None
    manifest = replace(
        candidate.manifest,
        generation=attempt.generation,
        attempt=attempt.id,
        run_id=attempt.run_id,
        created_at=services.now(),
    )
    services.log(
        f"uses the result of attempt [{held.attempt}] again, so no dedup job runs", generation=attempt.generation
    )
    return (
        replace(attempt, parent_files=stopped.parent_files),
        replace(candidate, manifest=manifest, metrics=DedupMetrics(), reused_from=held.attempt),
    )


def _has_files(services: Services, candidate: Candidate, manifest: Manifest) -> bool:
    try:
        files = services.manifests.candidate_files(candidate)
    except ContractViolation:
        return False
    return files is not None and services.manifests.files_exist(manifest, files)
