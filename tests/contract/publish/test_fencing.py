"""Runs that are taken for dead and are not: whatever they do later, it reaches neither staging nor target."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import Conflict
from google.cloud.bigquery import LoadJob

from dedup_clone.contract.errors import LostRace
from dedup_clone.publish.load import begin_load, read_candidate, table_load_configuration
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.step_specs import PublishSpec
from testkit.feed_on_stand_in import FeedOnStandIn, expected, job_id, row

FIRST = [row(7, 1), row(7, 2)]


def prepare_load(world: FeedOnStandIn, spec: PublishSpec) -> LoadJob:
    """The load job of an attempt: recorded, not made yet."""
    services = world.services
    candidate, manifest = read_candidate(services, spec)
    begin_load(services, spec, manifest)
    name = job_id(spec, "load", 1)
    services.current.record_job(spec.attempt, name)
    configuration = table_load_configuration(services, candidate, manifest)
    reference = {"projectId": "local-dev", "jobId": name, "location": "US"}
    return LoadJob.from_api_repr({"jobReference": reference, "configuration": configuration}, world.bigquery)


def test_a_recorded_job_that_was_never_made_cannot_be_made_after_its_run_was_recovered(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    sleeping = world.resolve(world.land(8, [row(8, 1, 99), row(8, 2, 98)]))
    world.dedup.run(sleeping.request_uri)
    job = prepare_load(world, sleeping)
    world.dedup.refused_ids = {8}
    after = world.resolve(world.land(9, [row(9, 1, 30), row(9, 2, 31)]))
    world.dedup.run(after.request_uri)
    world.load(after)
    with pytest.raises(Conflict):
        job._begin()
    world.swap(after, world.check(after))
    world.commit(after)
    assert world.rows() == expected(row(9, 1, 30), row(9, 2, 31))


def test_a_job_that_is_still_running_is_waited_for_before_the_lease_is_freed(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    dead = world.resolve(world.land(8, [row(8, 1, 99)]))
    world.dedup.run(dead.request_uri)
    job = prepare_load(world, dead)
    world.delay_jobs(job.job_id, 1.0)
    job._begin()
    recover(world.services, dag_id="other", run_id="other")
    facts = world.services.warehouse.job(job.job_id)
    assert facts is not None
    assert facts.ended


def test_a_recovered_run_can_take_no_further_step(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    sleeping = world.resolve(world.land(8, [row(8, 1, 99)]))
    world.dedup.run(sleeping.request_uri)
    recover(world.services, dag_id="other", run_id="other")
    for step in (world.load, world.check, world.commit):
        with pytest.raises(LostRace, match="Clear the run from its first task"):
            step(sleeping)
    with pytest.raises(LostRace):
        world.services.current.record_job(sleeping.attempt, "any")
    assert world.rows() == expected(*FIRST)


@pytest.mark.exhaustive
def test_generation_numbers_are_never_used_again(world: FeedOnStandIn) -> None:
    for _ in range(3):
        world.resolve(world.land(7, FIRST))  # each dies and is recovered by the next
    assert world.publish(world.land(7, FIRST)).generation == 4
    assert world.publish(world.land(8, [row(8, 5)])).generation == 5


def test_of_two_that_write_current_at_once_one_is_told_to_read_again(world: FeedOnStandIn) -> None:
    first, second = world.services.store, world.services.store
    name = world.services.layout.current
    world.resolve(world.land(7, FIRST))
    read = first.read(name)
    assert read
    second.replace(name, read.text, expected_object_generation=read.object_generation)
    with pytest.raises(LostRace, match="changed since it was read"):
        first.replace(name, read.text, expected_object_generation=read.object_generation)
