"""Every kind of fault at every call of every runner: one effective Spark run, the right end, nothing left behind."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.contract.dataproc.conftest import RUNNERS, Fake, Simulate
from tests.contract.dataproc.fake.faults import Fault
from tests.thoroughness import times

CODES = ("UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED")
LOST = ("UNAVAILABLE", "INTERNAL")


def kinds(method: str, number: int) -> list[Fault]:
    """Every way in which one call can go wrong."""
    refused = [Fault(method, number, code) for code in CODES]
    lost = [Fault(method, number, code, accepted=True) for code in LOST]
    return refused + lost + killed(method, number)


def killed(method: str, number: int) -> list[Fault]:
    """The caller dies, before or after its call was accepted."""
    return [Fault(method, number, "ABORTED", accepted=accepted, kills=True) for accepted in (False, True)]


def calls_of(runner: str, fakes: object, simulate: Simulate) -> list[tuple[str, int]]:
    fake = fakes(runner)
    assert simulate(runner).run().state == "success"
    return sorted(set(fake.faults.calls))


def assert_one_effective_run(fake: Fake, faults: object) -> None:
    state = fake.state
    assert [run.argument for run in state.succeeded] == [
        "gs://state/worked_example/attempts/00000007-abc123/attempt.json"
    ], faults
    assert state.active == [], faults
    assert state.max_active == 1, faults


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_single_fault_at_any_call_is_sat_out(runner: str, fakes, simulate: Simulate) -> None:
    calls = calls_of(runner, fakes, simulate)
    assert len(calls) >= 4
    for method, number in calls:
        for fault in kinds(method, number):
            fake = fakes(runner)
            fake.faults.plan([fault])
            done = simulate(runner).run()
            assert done.state == "success", (str(fault), done.errors)
            assert_one_effective_run(fake, str(fault))
            assert len(fake.state.runs) == 1, str(fault)


@pytest.mark.parametrize("runner", RUNNERS)
def test_two_faults_in_one_history_are_sat_out(runner: str, fakes, simulate: Simulate) -> None:
    random = Random(20261121)
    calls = calls_of(runner, fakes, simulate)
    pairs = list(product([f for m, n in calls for f in kinds(m, n)], repeat=2))
    for first, second in random.sample(pairs, times(4, 100)):
        fake = fakes(runner)
        fake.faults.plan([first, second])
        done = simulate(runner).run()
        assert done.state == "success", (str(first), str(second), done.errors)
        assert_one_effective_run(fake, (str(first), str(second)))


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_failed_run_is_followed_by_one_under_the_next_name_whoever_is_killed(
    runner: str, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner, endings=[("failed", "executors were preempted")])
    assert simulate(runner).run().state == "success"
    calls = sorted(set(fake.faults.calls))
    for method, number in calls[:: times(3, 1)]:
        for fault in killed(method, number):
            fake = fakes(runner, endings=[("failed", "executors were preempted")])
            fake.faults.plan([fault])
            done = simulate(runner).run()
            assert done.state == "success", (str(fault), done.errors)
            assert_one_effective_run(fake, str(fault))
            assert sorted(run.outcome for run in fake.state.runs.values()) == ["failed", "succeeded"], str(fault)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_task_that_fails_for_good_leaves_nothing_at_work(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner, endings=[("failed", "out of memory")] * 9)
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", 4)
    assert "out of memory" in done.error
    assert [run.outcome for run in fake.state.runs.values()] == ["failed"] * 4


@pytest.mark.parametrize("runner", RUNNERS)
def test_slow_states_are_waited_for(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner, slowness=60)
    assert simulate(runner).run().state == "success"
    assert_one_effective_run(fake, "slow")
