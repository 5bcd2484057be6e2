"""Which publish runs of a delivery the soak accepts: one, and repeats of a failed one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from devstack.producer.landing import Landed
from soak.consistency import _check_runs

LANDED = Landed("orders", 1, 2, datetime(2026, 3, 1, tzinfo=UTC), 1, 1, 1, False)
RUN = "publish__1__2"


@dataclass(frozen=True)
class FakeStack:
    """The methods of ProxiedStack about publish runs. `states`: the state of each run id."""

    states: dict[str, str]

    def run_ids(self, feed: str) -> list[str]:
        return sorted(self.states)

    def run_state(self, feed: str, run_id: str) -> str:
        return self.states[run_id]


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ({RUN: "success"}, None),
        ({RUN: "failed", f"{RUN}__2": "success"}, None),
        ({RUN: "success", f"{RUN}__2": "success"}, r"\[publish__1__2__2\] repeats \[publish__1__2\], which is \[succ"),
        ({}, "runs: "),
        ({RUN: "success", f"{RUN}5": "success"}, "runs: "),
    ],
)
def test_only_a_failed_run_may_be_repeated(states: dict[str, str], problem: str | None) -> None:
    found = _check_runs(cast("Any", FakeStack(states)), "orders", [LANDED])
    if problem is None:
        assert found == []
    else:
        (text,) = found
        assert re.search(problem, text)
