"""Warns that a generation's files are not sorted by the clustering columns, so that queries with filters read more."""

from __future__ import annotations

from dedup_clone.contract.manifest import Manifest

MIN_OVERLAP_FOR_HINT = 0.5  # as a share of the row groups


def clustering_hint(manifest: Manifest) -> str | None:
    """The warning as text; None if the table is not clustered, few row groups overlap, or their number is not known."""
    share = manifest.cluster_overlap
    if share is None or share < MIN_OVERLAP_FOR_HINT or not manifest.table.cluster_by:
        return None
    column = manifest.table.cluster_by[0]
    return (
        f"[{share:.0%}] of the files' row groups overlap in clustering column [{column}]: until BigQuery has clustered "
        f"the table again, filters on it read many blocks. Deliver files sorted by [{column}], or set "
        f"[dedup.plan: rewrite]."
    )
