"""A feed that declares policies: they are on staging and on every target, or nothing is published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery
from pydantic import ValidationError

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.metadata import Policies
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.new_feeds import new_feed
from tests.shared.stand_in_client import (
    FINE_GRAINED_READ,
    OVERRIDE_TIME_TRAVEL,
    STAND_IN_USER,
    Control,
)

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
ROW_POLICY = "own_stores"
TRUE_FILTER = "dedup_clone_publisher"
BOTH = Policies((ROW_POLICY, TRUE_FILTER), {"attr_value": TAG})
FIRST = [row(7, 1), row(7, 2)]
SECOND = [row(8, 1, 30), row(8, 3)]


@pytest.fixture
def world(clients: Any) -> FeedOnStandIn:
    declared = PolicySettings(row_access=(ROW_POLICY,), column_tags={"attr_value": TAG})
    feed: Feed = new_feed()
    table = feed.table.model_copy(update={"policies": declared})
    return FeedOnStandIn(feed.model_copy(update={"table": table}), *clients)


@pytest.fixture
def control(world: FeedOnStandIn) -> Iterator[Control]:
    switches = Control(world.bigquery._connection.API_BASE_URL.removeprefix("http://"))
    yield switches
    switches.clear_grants()


def let_publish(world: FeedOnStandIn, control: Control) -> None:
    """What docs/security.md asks for: a filter TRUE, and the permissions on the past and on tagged columns."""
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY {TRUE_FILTER} ON warehouse.{world.feed.staging} GRANT TO ('{STAND_IN_USER}') "
        "FILTER USING (TRUE)"
    )
    control.grant(OVERRIDE_TIME_TRAVEL)
    control.grant(FINE_GRAINED_READ)


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


def publish_first(world: FeedOnStandIn, control: Control) -> None:
    """The first run makes staging and loads nothing; the policies are made; the load runs again."""
    spec = world.resolve(world.land(7, FIRST))
    world.deduplicate(spec)
    with pytest.raises(CheckFailed, match=r"staging_policies(?s:.*)clear the run"):
        world.load(spec)
    staging = world.services.warehouse.table(world.feed.staging)
    assert staging is not None
    assert staging.rows == 0, "readers of the dataset would see what target hides"
    assert world.services.warehouse.table(world.feed.target) is None
    protect(world)
    let_publish(world, control)
    world.load(spec)
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    assert levels(world, record.attempt) == {"staging_policies": Level.PASS, "target_policies": Level.PASS}


def levels(world: FeedOnStandIn, attempt: str) -> dict[str, Level]:
    results = [v for phase in ("before", "after") for v in read_check_results(world.services, attempt, phase).items]
    return {v.check: v.level for v in results if v.check.endswith("_policies")}


def test_declared_policies_are_on_staging_and_on_every_target(world: FeedOnStandIn, control: Control) -> None:
    publish_first(world, control)
    record = world.publish(world.land(8, SECOND))
    assert levels(world, record.attempt) == {"staging_policies": Level.PASS, "target_policies": Level.PASS}
    assert (record.generation, record.rows) == (2, 3)
    for table in (world.feed.staging, world.feed.target):
        assert world.services.warehouse.policies(table) == BOTH
    assert len(world.rows()) == 3
    record = world.roll_back(1)
    assert record.restores == 1
    assert levels(world, record.attempt)["target_policies"] is Level.PASS
    assert world.services.warehouse.policies(world.feed.target) == BOTH
    control.clear_grants()
    with pytest.raises(exceptions.Forbidden, match=TAG):
        world.rows()


def test_a_publisher_that_may_not_read_the_past_of_all_rows_does_not_swap(
    world: FeedOnStandIn, control: Control
) -> None:
    """The check finds the missing filter TRUE and the missing permission; tags are first checked by the clone."""
    spec = world.resolve(world.land(7, FIRST))
    world.deduplicate(spec)
    protect(world)
    world.load(spec)
    with pytest.raises(CheckFailed, match=rf"staging_access(?s:.*)FILTER USING \(TRUE\).*{OVERRIDE_TIME_TRAVEL}"):
        world.check(spec)
    let_publish(world, control)
    checked = world.check(spec)
    control.clear_grants()
    with pytest.raises(exceptions.Forbidden, match=OVERRIDE_TIME_TRAVEL):
        world.swap(spec, checked)
    control.grant(OVERRIDE_TIME_TRAVEL)
    with pytest.raises(exceptions.Forbidden, match=f"fine-grained read access to column attr_value .*{TAG}"):
        world.swap(spec, checked, number=2)
    assert world.services.warehouse.table(world.feed.target) is None


@pytest.mark.exhaustive
def test_more_policies_than_fit_one_page_are_all_found(
    world: FeedOnStandIn, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REST method rowAccessPolicies.list: "leverage the page tokens"."""
    publish_first(world, control)
    connection = world.bigquery._connection
    ask = connection.api_request

    def ask_for_small_pages(**request: Any) -> Any:
        if request["method"] == "GET" and request["path"].endswith("/rowAccessPolicies"):
            request["query_params"] = {**request.get("query_params", {}), "pageSize": 1}
        return ask(**request)

    monkeypatch.setattr(connection, "api_request", ask_for_small_pages)
    assert world.services.warehouse.policies(world.feed.staging) == BOTH


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_an_engine_in_sql_is_refused_for_a_feed_with_policies(world: FeedOnStandIn, engine: Engine) -> None:
    """Its table of deliveries would show what target hides."""
    with pytest.raises(ConfigurationError, match="every reader of the dataset"):
        world.resolve(world.land(7, FIRST), replay=True, engine=engine, reason="without Spark")
    with pytest.raises(ValidationError, match="every reader of the dataset"):
        Feed.model_validate(world.feed.model_dump() | {"engine": engine})


def test_an_engine_in_sql_refuses_a_target_with_policies_that_nobody_declared(clients: Any) -> None:
    """A query would read only the rows that the policies show to it, and the others would be lost."""
    world = FeedOnStandIn(new_feed(), *clients)
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND), replay=True, engine=Engine.BIGQUERY, reason="without Spark")
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY {ROW_POLICY} ON warehouse.{world.feed.target} GRANT TO ('{STAND_IN_USER}') "
        "FILTER USING (product_id = 1)"
    )
    with pytest.raises(ContractViolation, match=ROW_POLICY):
        world.deduplicate(spec)


@pytest.mark.parametrize(
    ("lose", "missing"),
    [
        (lose_row_policy, f"row access policies {ROW_POLICY};"),
        pytest.param(lose_column_tag, "column tags attr_value: ", marks=pytest.mark.exhaustive),
    ],
)
def test_a_staging_that_lost_a_policy_is_not_published(
    world: FeedOnStandIn, control: Control, lose: Any, missing: str
) -> None:
    publish_first(world, control)
    spec = world.resolve(world.land(8, SECOND))
    world.deduplicate(spec)
    world.load(spec)
    lose(world)
    with pytest.raises(CheckFailed, match=f"staging_policies(?s:.*){missing}"):
        world.check(spec)
    with pytest.raises(CheckFailed, match=f"staging_policies(?s:.*){missing}"):  # of the next run, before its dedup
        world.resolve(world.land(9, SECOND))
    assert world.live() == "1"
    assert world.services.warehouse.policies(world.feed.target) == BOTH
