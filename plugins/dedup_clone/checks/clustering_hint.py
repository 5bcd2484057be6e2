"""Says when the files of a generation are in another order than the clustering columns, so that filters read much."""

from __future__ import annotations

from dedup_clone.contract.manifest import Manifest

MUCH_OVERLAP = 0.5


def clustering_hint(manifest: Manifest) -> str | None:
    """A sentence with what to do; None for a table without clustering, and where few row groups overlap."""
    share = manifest.cluster_overlap
    if share is None or share < MUCH_OVERLAP or not manifest.table.cluster_by:
        return None
    column = manifest.table.cluster_by[0]
    return (
        f"[{share:.0%}] of the files' row groups overlap in clustering column [{column}]: until BigQuery has clustered "
        f"the table again, filters on it read many blocks. Deliver files sorted by [{column}], or set "
        f"[dedup.plan: rewrite]."
    )
