"""Load step: what the load job of an attempt is, and what STAGING says before and after it."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ContractViolation, DeliveryRefused
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.request import FILES_PER_JOB
from dedup_clone.publish.discard import discard
from dedup_clone.publish.jobs import attempt_job_id
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.state.current import IntentKind
from dedup_clone.state.staging import Staging, StagingState


def read_candidate(services: Services, order: PublishOrder) -> tuple[Candidate, Manifest]:
    """The attempt's candidate. Raises DeliveryRefused when the job refused all that it was given."""
    candidate = services.manifests.candidate(order.attempt)
    if candidate is None:
        raise ContractViolation(
            f"Attempt [{order.attempt}] has no candidate manifest although its dedup job ended well: "
            f"clear the run from its first task."
        )
    if candidate.manifest is None:
        intent = services.current.require_intent(order.attempt)
        discard(services, intent)
        if intent.kind is IntentKind.BOOTSTRAP:
            raise BootstrapRefused(" ".join(refused.reason for refused in candidate.refused))
        reasons = "\n  ".join(f"[{r.delivery.name}] {r.reason}" for r in candidate.refused)
        raise DeliveryRefused(f"Every delivery was refused; target is unchanged:\n  {reasons}")
    return candidate, candidate.manifest


def job_id(order: PublishOrder, step: str, number: int) -> str:
    """The id of the `number`-th try of a step."""
    return attempt_job_id(order.feed, order.attempt, step, number)


def load_configuration(services: Services, candidate: Candidate) -> dict[str, Any]:
    """One job, whole table. WRITE_TRUNCATE_DATA keeps staging's policies, constraints and description.

    Raises CheckFailed for more files than BigQuery loads in one job.
    """
    names, files = services.names, services.manifests.candidate_files(candidate)
    if files is not None and len(files.files) > FILES_PER_JOB:
        raise CheckFailed(
            f"The generation has [{len(files.files)}] files, BigQuery loads at most [{FILES_PER_JOB}] in one job: "
            f"replay the snapshot with plan [rewrite], which writes few, and ask the producer for larger files."
        )
    return {
        "load": {
            "sourceUris": [candidate.load_uris_uri],
            "fileSetSpecType": "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST",
            "sourceFormat": "PARQUET",
            "destinationTable": {
                "projectId": names.project,
                "datasetId": names.dataset,
                "tableId": names.staging_table,
            },
            "createDisposition": "CREATE_NEVER",
            "writeDisposition": "WRITE_TRUNCATE_DATA",
            "parquetOptions": {"enableListInference": True},
        },
        "labels": {"dedup_clone_feed": services.feed.feed, "dedup_clone_step": "load"},
    }


def begin_load(services: Services, order: PublishOrder, manifest: Manifest) -> None:
    """No load starts before every earlier staging job has ended; from here on staging's contents are unknown."""
    intent = services.current.require_intent(order.attempt)
    services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    services.staging.write(Staging(StagingState.LOADING, order.attempt, order.generation, manifest.digest))


def finish_load(services: Services, order: PublishOrder, manifest: Manifest) -> None:
    """The load job ended well: staging holds exactly the manifest's rows (the next step verifies it)."""
    services.current.require_intent(order.attempt)
    services.staging.write(Staging(StagingState.LOADED, order.attempt, order.generation, manifest.digest))
    services.fact(
        f"loaded {manifest.rows} rows in {len(manifest.dates)} partitions into {services.names.staging_table}",
        snapshot_id=order.snapshot_id,
        generation=order.generation,
    )
