"""A feed whose file gets new columns: real publishes on the stand-in, against the oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, TableContract, UpdateIdMode
from dedup_clone.settings.table_settings import ColumnSettings
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import row
from testkit.oracle import OracleDelivery, OracleState
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import NESTED, PRODUCTS, oracle_table
from tests.contract.engines.nested_snapshots import OLDEST, snapshot

SIZE = Column("size", "INT64")
# In a STRUCT and in an ARRAY of STRUCTs: BigQuery's page "Modifying table schemas", "Add a nested column".
WIDER = replace(
    NESTED,
    columns=(*(replace(c, fields=(*c.fields, SIZE)) if c.fields else c for c in NESTED.columns), SIZE),
)
MUST_HAVE_SINCE = 3
Clients = tuple[Storage, BigQuery]


def declare(world: FeedAgainstOracle, table: TableContract, before: TableContract = NESTED) -> None:
    """Change the columns of the feed file; those that it lacked before are to be in files from snapshot 3 on."""

    def settings(column: Column, is_known: bool) -> ColumnSettings:
        known = {f.name for c in before.columns if c.name == column.name for f in c.fields}
        fields = tuple(settings(f, not is_known or f.name in known) for f in column.fields)
        values = {"name": column.name, "type": column.type, "mode": column.mode, "fields": fields}
        return ColumnSettings.model_validate(values | ({} if is_known else {"since": MUST_HAVE_SINCE}))

    names = {column.name for column in before.columns}
    world.declare_columns([settings(column, column.name in names) for column in table.columns])


def widened(rows: list[Row], size: int | None) -> list[Row]:
    return [
        {
            **row,
            "size": size,
            "info": row["info"] and {**row["info"], "size": size},
            "parts": [{**part, "size": size} for part in row["parts"]],
        }
        for row in rows
    ]


@pytest.mark.spark
@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", [UpdateIdMode.LAST_SEEN, UpdateIdMode.LAST_CHANGED])
def test_new_columns_are_added_by_the_next_publish(
    clients: Clients, real_dedup: SparkDedupProcess, mode: UpdateIdMode
) -> None:
    feed = feed_with_table(NESTED).model_copy(update={"update_id_mode": mode})
    world, random = FeedAgainstOracle(clients, feed), Random(5)
    world.dedup = real_dedup
    states = [OracleState(oracle_table(WIDER), last_changed=mode is UpdateIdMode.LAST_CHANGED)]
    first = snapshot(random, 1)
    world.publish(world.land(1, first))
    states.append(states[0].apply([OracleDelivery(1, widened(first, None))], OLDEST))

    second = snapshot(random, 2)
    files = world.files_of(second)  # without the new columns
    declare(world, WIDER)
    world.publish(world.land_files(2, files))
    states.append(states[1].apply([OracleDelivery(2, widened(second, None))], OLDEST))
    world.assert_equal(states[2])

    third = widened(snapshot(random, 3), 7)
    world.publish(world.land(3, third))
    states.append(states[2].apply([OracleDelivery(3, third)], OLDEST))
    world.assert_equal(states[3])

    with pytest.raises(ConfigurationError, match="older than nested columns"):
        world.roll_back(1)


@pytest.mark.parametrize(
    "known",
    [PRODUCTS, pytest.param(NESTED, marks=[pytest.mark.spark, pytest.mark.exhaustive])],
    ids=["fake job", "Spark"],
)
def test_new_columns_outlive_a_rollback_to_a_generation_without_them(
    clients: Clients, request: pytest.FixtureRequest, known: TableContract
) -> None:
    flat = replace(known, columns=(*known.columns, SIZE))
    world, random = FeedAgainstOracle(clients, feed_with_table(known)), Random(5)
    if known is NESTED:
        world.dedup = request.getfixturevalue("real_dedup")
    before = OracleState(oracle_table(flat))
    for number in (1, 2, 3):
        rows = snapshot(random, number) if known is NESTED else [row(number, 1, number), row(number, 10 + number)]
        seen = rows if number == 1 else [{**row, "size": number} for row in rows]
        after = before.apply(
            [OracleDelivery(number, seen if number > 1 else [r | {"size": None} for r in rows])], OLDEST
        )
        world.publish(world.land(number, seen))
        if number == 2:
            world.assert_equal(after)
            assert world.roll_back(1).restores == 1
            assert world.table_rows() == before.table_rows()
            continue
        before = after
        declare(world, flat, known)
    world.assert_equal(before)


def test_what_a_publish_cannot_change_is_refused_before_the_dedup(clients: Clients) -> None:
    world, random = FeedAgainstOracle(clients, feed_with_table(NESTED)), Random(5)
    world.publish(world.land(1, snapshot(random, 1)), engine=Engine.BIGQUERY)
    declare(world, replace(NESTED, columns=tuple(c for c in NESTED.columns if c.name != "note")))
    name = world.land(2, [{k: v for k, v in row.items() if k != "note"} for row in snapshot(random, 2)])
    with pytest.raises(ConfigurationError, match=r"column \[note\] is no longer declared.*Nothing was changed"):
        world.resolve(name)
    assert world.services.current.read().intent is None
    declare(world, WIDER)
    with pytest.raises(ConfigurationError, match=r"cannot be replayed with engine \[merge\]: .*since"):
        world.resolve(name, replay=True, engine=Engine.MERGE)


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)])
def test_engines_in_sql_add_columns_that_all_files_have(clients: Clients, engine: Engine) -> None:
    world, random = FeedAgainstOracle(clients, feed_with_table(NESTED, engine)), Random(5)
    flat = replace(NESTED, columns=(*NESTED.columns, SIZE))
    state = OracleState(oracle_table(flat))
    for number in (1, 2):
        rows = [{**row, "size": None if number == 1 else number} for row in snapshot(random, number)]
        landed = rows if number > 1 else [{k: v for k, v in row.items() if k != "size"} for row in rows]
        world.publish(world.land(number, landed))
        state = state.apply([OracleDelivery(number, rows)], OLDEST)
        if number == 1:
            table = world.feed.table.model_copy(
                update={"columns": (*world.feed.table.columns, ColumnSettings(name="size", type="INT64"))}
            )
            world.feed = world.feed.model_copy(update={"table": table})
            world.table, world.oracle_table = flat, oracle_table(flat)
        else:
            world.assert_equal(state)


def test_engines_in_sql_add_no_nested_columns(clients: Clients) -> None:
    world, random = FeedAgainstOracle(clients, feed_with_table(NESTED, Engine.BIGQUERY)), Random(5)
    world.publish(world.land(1, snapshot(random, 1)))
    declare(world, WIDER)
    with pytest.raises(ConfigurationError, match=r"add nested ones \['info.size', 'parts.size'\]"):
        world.resolve(world.land(2, widened(snapshot(random, 2), 1)))
