"""Uses the candidate of an attempt that a check stopped again, if a replay would make the same one.

So accepting the check costs no second run of the dedup job: the replay's own candidate names the files of the stopped
attempt. From then on it is a publish like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, DedupMetrics, Manifest
from dedup_clone.contract.request import DedupRequest
from dedup_clone.publish.records.held_deliveries import HeldDelivery, find_held
from dedup_clone.publish.services import Services


@dataclass(frozen=True)
class ReusableCandidate:
    """The `request` of an attempt, and its `candidate` in the name of that attempt."""

    request: DedupRequest
    candidate: Candidate


def find_reusable_candidate(
    services: Services, request: DedupRequest, live: Manifest | None
) -> ReusableCandidate | None:
    """What the attempt of `request`, which has no parent yet, takes from the attempt that a check stopped.

    None if deliveries, parent, settings, days or code differ, or if files are gone.
    """
    deliveries = tuple(item.delivery for item in request.deliveries)
    for held in find_held(services, live):
        if deliveries == (held.delivery,) and _is_kept(held, live):
            return _take_over(services, request, held)
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


def _take_over(services: Services, request: DedupRequest, held: HeldDelivery) -> ReusableCandidate | None:
    stopped = services.manifests.request(held.attempt)
    candidate = services.manifests.candidate(held.attempt)
    if stopped is None or candidate is None or candidate.manifest is None or stopped.changes or request.changes:
        return None
    as_stopped = replace(
        request,
        generation=stopped.generation,
        attempt=stopped.attempt,
        run_id=stopped.run_id,
        data_uri=stopped.data_uri,
        attempt_uri=stopped.attempt_uri,
        parent=stopped.parent,
    )
    if as_stopped != stopped or not _has_files(services, candidate, candidate.manifest):
        return None
    manifest = replace(
        candidate.manifest,
        generation=request.generation,
        attempt=request.attempt,
        run_id=request.run_id,
        created_at=services.now(),
    )
    services.log(
        f"uses the result of attempt [{held.attempt}] again, so no dedup job runs", generation=request.generation
    )
    return ReusableCandidate(
        replace(request, parent=stopped.parent),
        replace(candidate, manifest=manifest, metrics=DedupMetrics(0, 0, {}), reused_from=held.attempt),
    )


def _has_files(services: Services, candidate: Candidate, manifest: Manifest) -> bool:
    try:
        files = services.manifests.candidate_files(candidate)
    except ContractViolation:
        return False
    return files is not None and services.manifests.files_exist(manifest, files)
