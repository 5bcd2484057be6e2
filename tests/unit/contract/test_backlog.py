"""Which waiting deliveries are applied, in which order, and which are superseded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_clone.contract.delivery import Delivery, split_backlog


def deliveries(*names: str) -> list[Delivery]:
    return [Delivery.parse(name) for name in names]


@pytest.mark.parametrize(
    ("waiting", "folded", "excluded", "apply", "superseded"),
    [
        pytest.param(["8-1"], [], [], ["8-1"], [], id="first delivery"),
        pytest.param(["9-5", "8-6"], [], [], ["8-6", "9-5"], [], id="highest id last, whatever landed last"),
        pytest.param(["8-1", "8-2"], [], [], ["8-2"], ["8-1"], id="re-delivery waits beside the first"),
        pytest.param(["8-1"], ["8-2"], [], [], ["8-1"], id="later delivery is in already"),
        pytest.param(["8-2"], ["8-1"], [], ["8-2"], [], id="re-delivery of a published one"),
        pytest.param(["8-1"], ["8-1"], [], [], [], id="the same delivery twice"),
        pytest.param(["7-3"], ["8-1", "9-2"], [], ["7-3"], [], id="late snapshot is applied"),
        pytest.param(["8-1", "8-2"], [], ["8-2"], ["8-1"], [], id="an excluded delivery supersedes nothing"),
    ],
)
def test_backlog(
    waiting: list[str], folded: list[str], excluded: list[str], apply: list[str], superseded: list[str]
) -> None:
    backlog = split_backlog(deliveries(*waiting), deliveries(*folded), deliveries(*excluded))
    assert [d.name for d in backlog.apply] == apply
    assert [d.name for d in backlog.superseded] == superseded


DELIVERIES = st.lists(st.builds(Delivery, st.integers(0, 4), st.integers(1, 4)), max_size=8)


@given(waiting=DELIVERIES, folded=DELIVERIES)
def test_each_id_is_applied_at_most_once_and_nothing_is_lost(waiting: list[Delivery], folded: list[Delivery]) -> None:
    backlog = split_backlog(waiting, folded, [])
    assert set(backlog.apply) | set(backlog.superseded) == set(waiting) - set(folded)
    ids = [d.snapshot_id for d in backlog.apply]
    assert ids == sorted(set(ids))
