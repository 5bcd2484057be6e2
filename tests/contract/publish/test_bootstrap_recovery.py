"""A bootstrap while its table changes, after a crash at each step, and beside a publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, LeaseHeld, LostRace
from dedup_clone.publish.bootstrap.existing_export import export_existing
from dedup_clone.publish.bootstrap.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.bootstrap.resolve_bootstrap import resolve_bootstrap
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.step_specs import PublishSpec
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish import bootstrap_steps as steps
from tests.contract.publish.bootstrap_steps import MAINTAINED


def change(world: FeedOnStandIn) -> None:
    steps.insert(world, world.feed.target, [row(9, 10)])


def test_a_table_that_was_changed_after_it_was_shown_is_refused(maintained: FeedOnStandIn) -> None:
    shown = steps.preview(maintained)
    change(maintained)
    with pytest.raises(BootstrapRefused, match="was changed since it was shown"):
        resolve_bootstrap(maintained.services, steps.bootstrap_request(), shown.version)
    assert maintained.services.current.read().intent is None


def test_a_table_that_is_changed_during_the_export_is_refused(maintained: FeedOnStandIn) -> None:
    spec = steps.begin(maintained)
    change(maintained)
    with pytest.raises(BootstrapRefused, match="was changed since its metadata was read"):
        export_existing(maintained.services, spec.attempt)


def test_a_table_that_is_changed_before_the_swap_is_not_replaced(maintained: FeedOnStandIn) -> None:
    spec = steps.until_load(maintained)
    maintained.check(spec)
    change(maintained)
    existing = read_bootstrap_record(maintained.services, spec.attempt).existing
    with pytest.raises(BootstrapRefused, match="was changed"):  # the swap task checks once more
        require_unchanged(maintained.services, existing)
    with pytest.raises(CheckFailed, match="existing_unchanged"):
        maintained.check(spec)
    assert maintained.rows() == expected(*MAINTAINED, row(9, 10))


def swapped(world: FeedOnStandIn, spec: PublishSpec) -> None:
    world.swap(spec, world.check(spec))


STEPS: list[Callable[[FeedOnStandIn, PublishSpec], object]] = [
    lambda world, spec: export_existing(world.services, spec.attempt),
    lambda world, spec: world.deduplicate(spec),
    lambda world, spec: world.load(spec),
    swapped,
]


@pytest.mark.parametrize(
    "done",
    [len(STEPS), *(pytest.param(done, marks=pytest.mark.exhaustive) for done in range(4))],
)
def test_a_bootstrap_that_died_is_recovered_and_the_next_goes_on(maintained: FeedOnStandIn, done: int) -> None:
    spec = steps.begin(maintained)
    for step in STEPS[:done]:
        step(maintained, spec)
    has_swapped = done == len(STEPS)
    recover(maintained.services, dag_id="other", run_id="other")
    assert maintained.rows() == expected(*MAINTAINED)
    assert maintained.live() == ("1" if has_swapped else None)
    assert maintained.services.current.read().intent is None
    if not has_swapped:
        with pytest.raises(LostRace):
            maintained.check(spec)
        assert steps.bootstrap(maintained, run_id="again").generation == 2
    maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    assert maintained.rows() == expected(row(8, 1, 99), row(9, 2, 30), row(8, 4), row(7, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_every_step_may_be_done_twice(maintained: FeedOnStandIn) -> None:
    spec = steps.begin(maintained)
    for step in STEPS[:3]:
        step(maintained, spec)
    export_existing(maintained.services, spec.attempt)
    checked = maintained.check(spec)
    assert replace(maintained.check(spec), checked_at=checked.checked_at) == checked
    maintained.swap(spec, checked)
    assert maintained.commit(spec) == maintained.commit(spec)


def test_a_publish_and_a_bootstrap_keep_each_other_out(maintained: FeedOnStandIn) -> None:
    steps.begin(maintained)
    maintained.running.add("bootstrap")
    with pytest.raises(LeaseHeld, match=r"bootstrap.*bootstrap, generation 1"):
        maintained.resolve(maintained.land(9, [row(9, 2, 30)]))


def test_a_publish_does_not_replace_a_table_that_nobody_took_over(maintained: FeedOnStandIn) -> None:
    with pytest.raises(CheckFailed, match=r"target_is_parent.*bootstrap the feed"):
        maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    assert maintained.rows() == expected(*MAINTAINED)
