"""Which publish runs of a delivery the soak accepts: one, and repeats of a failed one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devstack.demo.airflow_api import Task
from devstack.producer.landing import Landed
from soak.consistency import _check_runs
from soak.delivery_producer import DeliveryProducer
from soak.kill_matrix import KillMatrix

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


def test_a_run_has_not_ended_while_airflow_lists_no_task_of_it() -> None:
    """As while its API server restarts between two requests."""
    tasks: list[Task] = []
    stack: Any = SimpleNamespace(run_state=lambda feed, run_id: "success", tasks=lambda feed, run_id: tasks)
    matrix = KillMatrix(stack, DeliveryProducer(None))
    assert matrix._final_state("orders", RUN) is None
    tasks.append(Task("swap_target", "running", 1, -1))
    assert matrix._final_state("orders", RUN) is None
    tasks[0] = Task("swap_target", "success", 1, -1)
    assert matrix._final_state("orders", RUN) == "success"


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
