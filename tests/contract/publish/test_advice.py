"""Whoever does what a refusal or an incident says gets the feed healthy again.

Each case is an accident, the way out that the texts name, and the same way gone. The texts are those that an operator
reads: what the watchdog reports, and the error of the next publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import LeaseLost
from dedup_clone.freshness.evaluation import find_incidents
from dedup_clone.publish.lost_records.recovery_plan import carry_out, plan_recovery
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.resolve import resolve
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import YESTERDAY, expected, row
from testkit.table_contracts import PRODUCTS
from tests.contract.feed_state_reader import read_state

LIVE = [row(1, 1, day=YESTERDAY), row(1, 2, day=YESTERDAY), row(1, 1), row(1, 2)]
NEXT = [row(2, 1, 21), row(2, 3)]
AFTER_NEXT = expected(LIVE[0], LIVE[1], NEXT[0], LIVE[3], NEXT[1])
SQL_ENGINES = (Engine.BIGQUERY, Engine.MERGE)
ALL_ENGINES = (Engine.SPARK, *SQL_ENGINES)
World = FeedAgainstOracle


def incidents(world: World) -> str:
    """What the watchdog reports, with the next steps."""
    found = find_incidents(world.now(), read_state(world.services))
    waiting = bool(world.services.current.read().generation) and [i for i in found if "promise" in i.kind]
    return "\n".join(f"{one.kind}: {one.what} Next: {one.next_step}" for one in found if one not in (waiting or ()))


def refusal(world: World, publish: Callable[[], object]) -> str:
    """The error of a run that must fail; its attempt is then ended as its run ends it. Empty if it does not fail."""
    try:
        publish()
    except Exception as error:
        intent = world.services.current.read().intent
        if intent is not None:
            commit_or_discard(world.services, intent)
        return str(error)
    return ""


def query(world: World, sql: str) -> None:
    names = {"target": f"warehouse.{world.feed.target}", "staging": f"warehouse.{world.feed.staging}"}
    world.bigquery.query_and_wait(sql.format(**names))


def runs(*statements: str) -> Callable[[World, str], None]:
    """An accident or a remedy that is SQL."""

    def run(world: World, text: str) -> None:
        for sql in statements:
            query(world, sql)

    return run


def loses(name: str) -> Callable[[World, str], None]:
    """An accident that deletes the objects of state with this prefix."""

    def lose(world: World, text: str) -> None:
        assert world.services.store.delete_prefix(f"{world.feed.feed}/{name}")

    return lose


def rolls_back(world: World, text: str) -> None:
    (generation,) = set(re.findall(r"[Rr]oll back to generation \[(\d+)\]", text))
    world.roll_back(int(generation))


def sets_labels_back(world: World, text: str) -> None:
    labels = dict(re.findall(r"--set_label (\w+):(\w+)", text))
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.labels = {**table.labels, **labels}
    world.bigquery.update_table(table, ["labels"])


def sets_labels_back_and_rolls_back(world: World, text: str) -> None:
    sets_labels_back(world, text)
    rolls_back(world, text)


def moves_target_away_and_recovers(world: World, text: str) -> None:
    sets_labels_back(world, text)
    refused = refusal(world, lambda: rolls_back(world, text))
    assert "layout" in refused
    assert "move it away" in refused
    query(world, "DROP TABLE {target}")
    recovers(world, refused)


def waits_for_the_next_publish(world: World, text: str) -> None:
    assert "next publish ends this" in text


def recovers(world: World, text: str) -> None:
    assert f"make recover FEED={world.feed.feed}" in text
    carry_out(world.services, plan_recovery(world.services))


REPLACED = "CREATE TABLE {{target}} {} AS SELECT * FROM {{staging}} WHERE product_id = 1"
LAYOUT = "PARTITION BY date CLUSTER BY product_id, store_id"


@dataclass(frozen=True)
class Case:
    """`told`, `refused`: kind of the incident and part of the next publish's error; empty if there is none."""

    accident: Callable[[World, str], None]
    told: str
    refused: str
    remedy: Callable[[World, str], None]
    engines: tuple[Engine, ...] = (Engine.SPARK,)


CASES = {
    "rows were deleted": Case(
        runs("DELETE FROM {target} WHERE product_id = 2 AND date = CURRENT_DATE()"),
        "target_drift",
        "Somebody changed target",
        rolls_back,
        SQL_ENGINES,
    ),
    "rows of a date that the next snapshot lacks were deleted": Case(
        runs("DELETE FROM {target} WHERE date < CURRENT_DATE()"),
        "target_drift",
        "Somebody changed target",
        rolls_back,
        SQL_ENGINES,
    ),
    "rows were inserted": Case(
        runs("INSERT INTO {target} SELECT * REPLACE (9 AS product_id) FROM {target}"),
        "target_drift",
        "Somebody changed target",
        rolls_back,
        SQL_ENGINES,
    ),
    "rows were deleted, and the engine does not read them": Case(
        runs("DELETE FROM {target} WHERE product_id = 2"), "target_drift", "", rolls_back
    ),
    "target was replaced": Case(
        runs("DROP TABLE {target}", REPLACED.format(LAYOUT)),
        "target_drift",
        "target_is_parent",
        sets_labels_back_and_rolls_back,
        ALL_ENGINES,
    ),
    "target was replaced by a table of another layout": Case(
        runs("DROP TABLE {target}", REPLACED.format("")),
        "target_drift",
        "target_is_parent",
        moves_target_away_and_recovers,
        ALL_ENGINES,
    ),
    "target was deleted": Case(runs("DROP TABLE {target}"), "target_drift", "target_is_parent", recovers, ALL_ENGINES),
    "CURRENT was deleted": Case(loses("CURRENT"), "records_lost", "are lost", recovers, ALL_ENGINES),
    "CURRENT and target were deleted": Case(
        lambda world, text: (loses("CURRENT")(world, text), query(world, "DROP TABLE {target}"))[1],
        "records_lost",
        "are lost",
        recovers,
    ),
    "the ledger record was deleted": Case(loses("ledger/"), "records_lost", "", waits_for_the_next_publish),
}


@pytest.mark.parametrize(
    ("case", "engine"),
    [pytest.param(case, engine, id=f"{name}, {engine}") for name, case in CASES.items() for engine in case.engines],
)
def test_the_way_out_that_is_named_leads_out(clients: tuple[Storage, BigQuery], case: Case, engine: Engine) -> None:
    world = World(clients, feed_with_table(PRODUCTS, engine))
    world.publish(world.land(1, LIVE))
    assert incidents(world) == ""
    case.accident(world, "")
    told = incidents(world)
    assert case.told in told
    waiting = world.land(2, NEXT)
    refused = refusal(world, lambda: world.publish(waiting)) if case.refused else ""
    assert case.refused in refused
    case.remedy(world, told + refused)
    world.publish(waiting, run_id="again")
    assert world.rows() == AFTER_NEXT
    assert incidents(world) == ""


def test_a_failed_run_goes_on_from_its_first_task_and_from_no_later_one(clients: tuple[Storage, BigQuery]) -> None:
    world = World(clients, feed_with_table(PRODUCTS))
    spec, _ = world.publish_to_check(world.land(1, LIVE), run_id="failed")
    commit_or_discard(
        world.services, world.services.current.require_intent(spec.attempt)
    )  # what reconcile_failure does
    with pytest.raises(LeaseLost, match="from its first task"):
        world.check(spec)
    world.publish(world.services.arrivals.deliveries()[-1].name, run_id="failed")
    assert world.rows() == expected(*LIVE)


def test_a_run_whose_commit_was_marked_as_done_commits_when_it_is_cleared(clients: tuple[Storage, BigQuery]) -> None:
    world = World(clients, feed_with_table(PRODUCTS))
    name = world.land(1, LIVE)
    spec, checked = world.publish_to_check(name, run_id="marked")
    world.swap(spec, checked)
    assert "run [marked] ended and left its attempt to the next run" in incidents(world)
    assert "already" in str(resolve(world.services, world.publish_request(name, run_id="marked")))
    assert world.services.current.read().generation == 1
    assert incidents(world) == ""


@pytest.mark.parametrize("engine", SQL_ENGINES)
def test_the_live_generation_comes_back_from_staging_when_time_travel_does_not_reach_its_swap(
    clients: tuple[Storage, BigQuery], engine: Engine
) -> None:
    world = World(clients, feed_with_table(PRODUCTS, engine))
    world.publish(world.land(1, LIVE))
    query(world, "DELETE FROM {target} WHERE product_id = 2")
    clock = world.now
    world.now = lambda: clock() + timedelta(days=8)  # type: ignore[method-assign]
    world.roll_back(1)
    assert world.rows() == expected(*LIVE)
    query(world, "DELETE FROM {target} WHERE product_id = 2")
    query(world, "DELETE FROM {staging} WHERE product_id = 2")
    with pytest.raises(Exception, match=r"Choose one of: none"):
        world.roll_back(2)
