"""A feed that declares policies: they are on staging and on every target, or nothing is published."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.settings.feed import Feed, PolicySettings
from dedup_clone.warehouse.metadata import Policies
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.publish.conftest import new_feed

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
ROW_POLICY = "own_stores"
FIRST = [row(7, 1), row(7, 2)]
SECOND = [row(8, 1, 30), row(8, 3)]


@pytest.fixture
def world(clients: Any) -> FeedOnStandIn:
    declared = PolicySettings(row_access=(ROW_POLICY,), column_tags={"attr_value": TAG})
    feed: Feed = new_feed()
    table = feed.table.model_copy(update={"policies": declared})
    return FeedOnStandIn(feed.model_copy(update={"table": table}), *clients)


def protect(world: FeedOnStandIn) -> None:
    """What whoever governs the data does, once, with a staging that a first run has made."""
    staging = f"warehouse.{world.feed.staging}"
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY {ROW_POLICY} ON {staging} GRANT TO ('group:stores@example.com') "
        "FILTER USING (store_id = 2072)"
    )
    table = world.bigquery.get_table(f"local-dev.{staging}")
    table.schema = [
        bigquery.SchemaField(c.name, c.field_type, c.mode, policy_tags=bigquery.PolicyTagList([TAG]))
        if c.name == "attr_value"
        else c
        for c in table.schema
    ]
    world.bigquery.update_table(table, ["schema"])


def lose_row_policy(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(f"DROP ALL ROW ACCESS POLICIES ON warehouse.{world.feed.staging}")


def lose_column_tag(world: FeedOnStandIn) -> None:
    table = world.bigquery.get_table(f"local-dev.warehouse.{world.feed.staging}")
    table.schema = [
        bigquery.SchemaField(c.name, c.field_type, c.mode, policy_tags=bigquery.PolicyTagList([])) for c in table.schema
    ]
    world.bigquery.update_table(table, ["schema"])


def publish_first(world: FeedOnStandIn) -> None:
    """The first run makes staging and fails its check; the policies are made; its check runs again and passes."""
    spec = world.resolve(world.land(7, FIRST))
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed, match="staging_policies"):
        world.check(spec)
    assert world.services.warehouse.table(world.feed.target) is None
    protect(world)
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    assert levels(world, record.attempt) == {"staging_policies": Level.PASS, "target_policies": Level.PASS}


def levels(world: FeedOnStandIn, attempt: str) -> dict[str, Level]:
    results = [v for phase in ("before", "after") for v in read_check_results(world.services, attempt, phase).items]
    return {v.check: v.level for v in results if v.check.endswith("_policies")}


def test_declared_policies_are_on_staging_and_on_every_target(world: FeedOnStandIn) -> None:
    publish_first(world)
    record = world.publish(world.land(8, SECOND))
    assert levels(world, record.attempt) == {"staging_policies": Level.PASS, "target_policies": Level.PASS}
    assert (record.generation, record.rows) == (2, 3)
    for table in (world.feed.staging, world.feed.target):
        assert world.services.warehouse.policies(table) == Policies((ROW_POLICY,), {"attr_value": TAG})
    with pytest.raises(exceptions.MethodNotImplemented, match=ROW_POLICY):
        world.rows()


@pytest.mark.parametrize(
    ("lose", "missing"),
    [(lose_row_policy, f"row access policies {ROW_POLICY};"), (lose_column_tag, "column tags attr_value: ")],
)
def test_a_staging_that_lost_a_policy_is_not_published(world: FeedOnStandIn, lose: Any, missing: str) -> None:
    publish_first(world)
    lose(world)
    spec = world.resolve(world.land(8, SECOND))
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed, match=f"staging_policies(?s:.*){missing}"):
        world.check(spec)
    assert world.live() == "1"
    assert world.services.warehouse.policies(world.feed.target) == Policies((ROW_POLICY,), {"attr_value": TAG})


def test_a_rollback_keeps_the_policies(world: FeedOnStandIn) -> None:
    publish_first(world)
    world.publish(world.land(8, SECOND))
    record = world.roll_back(1)
    assert record.restores == 1
    assert levels(world, record.attempt)["target_policies"] is Level.PASS
    assert world.services.warehouse.policies(world.feed.target) == Policies((ROW_POLICY,), {"attr_value": TAG})
