"""How a request names the generation that it builds on, whichever engine made that and whichever will build on it."""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import ParentGeneration
from dedup_clone.publish.export import export_generation
from dedup_clone.publish.services import Services


def name_parent(
    services: Services, attempt: str, parent: Manifest | None, engine: Engine, *, oldest: date
) -> ParentGeneration | None:
    """`oldest` is the first date that is kept. For Spark, a parent without files is exported from target first.

    Raises ContractViolation when target no longer holds the parent, JobFailed.
    """
    if parent is None:
        return None
    if engine is not Engine.SPARK:
        return _without_files(services, parent)
    if services.manifests.files_are_there(parent):
        return services.manifests.parent(parent.generation)
    return export_generation(services, attempt, parent, oldest=oldest)


def _without_files(services: Services, parent: Manifest) -> ParentGeneration:
    """The engines in SQL read target."""
    manifest_uri = services.store.uri(services.layout.manifest(parent.generation))
    return ParentGeneration(parent.generation, manifest_uri, file_list_uri="", file_list_digest="", data_uri="")
