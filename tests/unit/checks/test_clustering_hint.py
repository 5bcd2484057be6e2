"""When a publish says that its files are in another order than the clustering columns."""

from __future__ import annotations

import pytest

from dedup_clone.checks.clustering_hint import clustering_hint
from tests.unit.checks.builders import TODAY, entry, manifest


@pytest.mark.parametrize(("shares", "is_given"), [((0.9, 0.9), True), ((0.6, 0.1), False), ((None, None), False)])
def test_the_hint_is_given_when_most_rows_are_in_overlapping_row_groups(
    shares: tuple[float | None, ...], is_given: bool
) -> None:
    hint = clustering_hint(manifest(*(entry(TODAY, cluster_overlap=share) for share in shares)))
    assert (hint is not None) == is_given
    if hint is not None:
        assert "[90%]" in hint
        assert "sorted by [product_id], or set [dedup.plan: rewrite]" in hint
