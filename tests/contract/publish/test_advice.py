"""Whoever does what a refusal or an incident says gets the feed healthy again.

Each case is an accident, the way out that the texts name, and the same way gone. The texts are those that an operator
reads: what the watchdog reports, and the error of the next publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from testkit import operations, runs
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import YESTERDAY, expected, row
from testkit.table_contracts import PRODUCTS

LIVE = [row(1, 1, day=YESTERDAY), row(1, 2, day=YESTERDAY), row(1, 1), row(1, 2)]
NEXT = [row(2, 1, 21), row(2, 3)]
AFTER_NEXT = expected(LIVE[0], LIVE[1], NEXT[0], LIVE[3], NEXT[1])
SPARK, QUERY, MERGE = Engine.SPARK, Engine.BIGQUERY, Engine.MERGE
World = FeedAgainstOracle
Remedy = Callable[[World, str], None]


def reported(world: World) -> str:
    """What the watchdog reports, with the next steps; of a live feed not that the next snapshot waits for a person."""
    is_live = world.state.generation is not None
    found = [one for one in operations.incidents(world) if not (is_live and one.kind == "late")]
    return "\n".join(f"{one.name}: {one.what} Next: {one.next_step}" for one in found)


def refusal(world: World, publish: Callable[[], object]) -> str:
    """The error of a run that must fail; its attempt is then ended as its run ends it. Empty if it does not fail."""
    try:
        publish()
    except Exception as error:
        if world.state.text("CURRENT") is not None:
            operations.recover_lease(world)
        return str(error)
    return ""


def query(world: World, *statements: str) -> None:
    names = {"target": f"warehouse.{world.feed.target}", "staging": f"warehouse.{world.feed.staging}"}
    for sql in statements:
        world.bigquery.query_and_wait(sql.format(**names))


def rolls_back(world: World, text: str) -> None:
    (generation,) = set(re.findall(r"[Rr]oll back to generation \[(\d+)\]", text))
    world.roll_back(int(generation))


def sets_labels_back(world: World, text: str) -> None:
    world.label(**dict(re.findall(r"--set_label (\w+):(\w+)", text)))


def sets_labels_back_and_rolls_back(world: World, text: str) -> None:
    sets_labels_back(world, text)
    rolls_back(world, text)


def moves_target_away_and_recovers(world: World, text: str) -> None:
    sets_labels_back(world, text)
    refused = refusal(world, lambda: rolls_back(world, text))
    assert "move it away" in refused
    query(world, "DROP TABLE {target}")
    recovers(world, refused)


def waits_for_the_next_publish(world: World, text: str) -> None:
    assert "next publish ends this" in text


def recovers(world: World, text: str) -> None:
    assert f"deploy recover {world.feed.feed}" in text
    operations.recover_records(world)


REPLACED = "CREATE TABLE {{target}} {} AS SELECT * FROM {{staging}} WHERE product_id = 1"
LAYOUT = "PARTITION BY date CLUSTER BY product_id, store_id"
OLD_ROWS, SOME_ROWS = "DELETE FROM {target} WHERE date < CURRENT_DATE()", "DELETE FROM {target} WHERE product_id = 2"
MORE_ROWS = "INSERT INTO {target} SELECT * REPLACE (9 AS product_id) FROM {target}"
DROP = "DROP TABLE {target}"
CHANGED, NO_TARGET, LOST = "Somebody changed target", "target_is_parent", "are lost"
# The engines of the feed; statements, or the beginning of the names of lost objects; the kind of the incident; a part
# of the next publish's error, empty if there is none; the way out.
CASES: list[tuple[tuple[Engine, ...], list[str], str, str, str, Remedy]] = [
    ((QUERY, MERGE), [SOME_ROWS], "", "target_drift", CHANGED, rolls_back),
    ((MERGE,), [OLD_ROWS], "", "target_drift", CHANGED, rolls_back),
    ((QUERY,), [MORE_ROWS], "", "target_drift", CHANGED, rolls_back),
    ((SPARK,), [SOME_ROWS], "", "target_drift", "", rolls_back),  # the engine does not read them
    ((SPARK, MERGE), [DROP, REPLACED.format(LAYOUT)], "", "target_drift", NO_TARGET, sets_labels_back_and_rolls_back),
    ((SPARK, QUERY), [DROP, REPLACED.format("")], "", "target_drift", NO_TARGET, moves_target_away_and_recovers),
    ((SPARK, MERGE), [DROP], "", "target_drift", NO_TARGET, recovers),
    ((SPARK, QUERY), [], "CURRENT", "records_lost", LOST, recovers),
    ((SPARK,), [], "ledger/", "records_lost", "", waits_for_the_next_publish),
]


@pytest.mark.parametrize(
    ("engine", "statements", "lost", "told", "refused", "remedy"),
    [(engine, *case) for engines, *case in CASES for engine in engines],
)
def test_the_way_out_that_is_named_leads_out(
    clients: tuple[Storage, BigQuery],
    engine: Engine,
    statements: list[str],
    lost: str,
    told: str,
    refused: str,
    remedy: Remedy,
) -> None:
    world = World(clients, feed_with_table(PRODUCTS, engine))
    world.publish(world.land(1, LIVE))
    assert reported(world) == ""
    query(world, *statements)
    if lost:
        world.state.lose(lost)
    seen = reported(world)
    assert told in seen
    waiting = world.land(2, NEXT)
    error = refusal(world, lambda: world.publish(waiting)) if refused else ""
    assert refused in error
    remedy(world, seen + error)
    world.publish(waiting, run_id="again")
    assert world.rows() == AFTER_NEXT
    assert reported(world) == ""


def test_a_run_whose_commit_was_marked_as_done_commits_when_it_is_cleared(clients: tuple[Storage, BigQuery]) -> None:
    world = World(clients, feed_with_table(PRODUCTS))
    name = world.land(1, LIVE)
    runs.publish(world, name, run_id="marked").until("swap")
    assert "run [marked] ended and left its attempt to the next run" in reported(world)
    assert "already" in world.nothing_to_do(name, run_id="marked")
    assert world.state.generation == 1
    assert reported(world) == ""


@pytest.mark.parametrize("engine", [QUERY, MERGE])
def test_the_live_generation_comes_back_from_staging_when_time_travel_does_not_reach_its_swap(
    clients: tuple[Storage, BigQuery], engine: Engine
) -> None:
    world = World(clients, feed_with_table(PRODUCTS, engine))
    world.publish(world.land(1, LIVE))
    query(world, SOME_ROWS)
    clock = world.now
    world.now = lambda: clock() + timedelta(days=8)
    world.roll_back(1)
    assert world.rows() == expected(*LIVE)
    query(world, SOME_ROWS, "DELETE FROM {staging} WHERE product_id = 2")
    with pytest.raises(ConfigurationError, match="Choose one of: none"):
        world.roll_back(2)
