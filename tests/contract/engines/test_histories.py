"""Whole histories of publishes by each engine in SQL: table and manifest are the oracle's after every publish.

The Spark job is held against the same oracle with rows of the same generators (test_histories.py and
test_generated_tables.py in tests/spark).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedup_clone.contract.delivery import Delivery, split_backlog
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.settings.check_settings import CheckSettings
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import NESTED, PRODUCTS
from tests.contract.engines.nested_snapshots import OLDEST, snapshot
from tests.permutations import orders, steps
from tests.shared.random_rows import FIRST_DAY, random_rows
from tests.thoroughness import SEEDS, times

DAYS = 4
STRICT = CheckSettings(max_new_share=0, max_survivor_share=0, max_changed_share=0)
FEW = settings(
    max_examples=times(1, 10),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Publishes as (deliveries of (snapshot id, days left out), days that pass before it).
deliveries = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).flatmap(
    lambda ids: st.tuples(
        *[st.tuples(st.just(n), st.lists(st.integers(0, DAYS - 1), max_size=2, unique=True)) for n in sorted(ids)]
    )
)
histories = st.lists(st.tuples(deliveries, st.sampled_from([0, 0, 1])), min_size=2, max_size=times(2, 3))
Clients = tuple[Storage, BigQuery]


def statements(*quick: tuple[Engine, SqlForm]) -> pytest.MarkDecorator:
    """An engine in SQL, and the feed's form, which engine `merge` does not use. The others are tried exhaustively."""
    ways = [*((Engine.BIGQUERY, form) for form in SqlForm), (Engine.MERGE, SqlForm.QUALIFY)]
    cases = [pytest.param(w, id="-".join(w), marks=() if w in quick else pytest.mark.exhaustive) for w in ways]
    return pytest.mark.parametrize("statement", cases)


@statements((Engine.BIGQUERY, SqlForm.QUALIFY), (Engine.MERGE, SqlForm.QUALIFY))
@FEW
@given(history=histories, seed=SEEDS, date_folders=st.booleans())
def test_random_history(
    clients: Clients,
    statement: tuple[Engine, SqlForm],
    history: Sequence[tuple[Sequence[tuple[int, list[int]]], int]],
    seed: int,
    date_folders: bool,
) -> None:
    random, today = Random(seed), TODAY
    world = FeedAgainstOracle(clients, feed_with_table(NESTED, *statement, date_folders=date_folders))
    expected = OracleState(world.oracle_table)
    for step, days_passed in history:
        today += timedelta(days=days_passed)
        real = world.now
        world.now = lambda real=real, days=days_passed: real() + timedelta(days=days)  # type: ignore[misc]
        delivered, names = [], []
        for snapshot_id, missing in step:
            rows = random_rows(random, snapshot_id, DAYS, missing)
            rows = [{**row, "day": row["day"] + (OLDEST - FIRST_DAY)} for row in rows]
            names.append(world.land(snapshot_id, rows))
            delivered.append(OracleDelivery(snapshot_id, rows))
        world.publish(names[-1])
        expected = expected.apply(delivered, today - timedelta(days=NESTED.retention_days - 1))
        world.assert_equal(expected)


@statements((Engine.BIGQUERY, SqlForm.ROW_NUMBER), (Engine.BIGQUERY, SqlForm.GROUP_BY))
@pytest.mark.parametrize("seed", range(times(1, 40)))
def test_table_of_random_columns(clients: Clients, statement: tuple[Engine, SqlForm], seed: int) -> None:
    random = Random(seed)
    table = random_table(random, floats_in_arrays=False)
    world = FeedAgainstOracle(clients, feed_with_table(table, *statement, date_folders=random.random() < 0.5))
    history = GeneratedHistory(table, random, TODAY - timedelta(days=DAYS), repeat=random.choice([0.05, 0.5]))
    expected = OracleState(world.oracle_table)
    for snapshot_ids in ((2,), (1, 3), (3,))[: times(2, 3)]:
        delivered = [OracleDelivery(n, history.snapshot(n)) for n in snapshot_ids]
        names = [world.land(delivery.snapshot_id, delivery.rows) for delivery in delivered]
        world.publish(names[-1])
        expected = expected.apply(delivered, OLDEST)
        world.assert_equal(expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE], ids=str)
def test_every_order_of_arrival_ends_in_the_same_table(clients: Clients, engine: Engine) -> None:
    world = FeedAgainstOracle(clients, feed_with_table(PRODUCTS, engine, date_folders=False))
    expected = OracleState(world.oracle_table)
    first_day = TODAY - timedelta(days=len(orders()))
    for step in steps(first_day):
        names = [world.land(snapshot_id, rows) for snapshot_id, rows in step.items()]
        world.publish(names[-1])
        expected = expected.apply([OracleDelivery(n, rows) for n, rows in step.items()], first_day)
        world.assert_equal(expected)
    by_date: dict[object, set[tuple[int, int, int]]] = {}
    for row in expected.rows.values():
        by_date.setdefault(row["date"], set()).add((row["product_id"], row["attr_value"], row["update_id"]))
    assert len(by_date) == 24
    assert len({frozenset(rows) for rows in by_date.values()}) == 1


HELD_CASES = [
    pytest.param(Engine.SPARK, 1, id="spark", marks=pytest.mark.spark),
    pytest.param(Engine.BIGQUERY, 1, id="bigquery"),
    pytest.param(Engine.MERGE, 1, id="merge"),
    *(
        pytest.param(engine, seed, id=f"{engine}-{seed}", marks=[pytest.mark.exhaustive, pytest.mark.spark])
        for engine in (Engine.SPARK, Engine.BIGQUERY, Engine.MERGE)
        for seed in range(2, 8)
    ),
]


@pytest.mark.parametrize(("engine", "seed"), HELD_CASES)
def test_history_with_held_deliveries(
    clients: Clients, engine: Engine, seed: int, request: pytest.FixtureRequest
) -> None:
    """What a check stops is left out until it is replayed; in any order, and whatever waited with it."""
    random = Random(seed)
    world = FeedAgainstOracle(clients, feed_with_table(NESTED, engine))
    if engine is Engine.SPARK:
        world.dedup = request.getfixturevalue("real_dedup")
    lenient = world.feed
    expected, delivered, held = OracleState(world.oracle_table), dict[str, OracleDelivery](), list[str]()
    ids = random.sample(range(1, 8), k=6)
    for number, snapshot_ids in enumerate([ids[:1], ids[1:3], ids[3:4], ids[4:]]):
        for snapshot_id in snapshot_ids:
            rows = snapshot(random, snapshot_id)
            delivered[world.land(snapshot_id, rows)] = OracleDelivery(snapshot_id, rows)
        waiting = sorted(delivered.keys() - {*held, *applied(world)}, key=Delivery.parse)
        while waiting:
            is_stopped = number > 0 and random.random() < 0.6
            world.feed = lenient.model_copy(update={"checks": STRICT}) if is_stopped else lenient
            spec = world.resolve(waiting[-1], run_id=f"{number}-{len(waiting)}-{len(held)}")
            world.deduplicate(spec)
            world.load(spec)
            try:
                swap = world.check(spec)
            except CheckFailed:
                assert not commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
                stopped = waiting[:-1] or waiting
                held += stopped
                waiting = [name for name in waiting if name not in stopped]
                continue
            world.swap(spec, swap)
            world.commit(spec)
            expected = expected.apply([delivered[name] for name in waiting], OLDEST)
            world.assert_equal(expected)
            waiting = []
    world.feed = lenient
    assert held
    for name in random.sample(held, k=len(held)):
        world.publish(name, replay=True, reason="it is right", run_id=f"replay-{name}")
        expected = expected.apply([delivered[name]], OLDEST)
        world.assert_equal(expected)
    assert applied(world) == delivered.keys()


def applied(world: FeedAgainstOracle) -> set[str]:
    generation = world.services.current.read().generation
    return {d.name for d in world.services.manifests.read(generation).deliveries} if generation else set()


def test_superseded_delivery_changes_nothing(clients: Clients) -> None:
    """Of two deliveries of one id the later counts; the earlier one is not applied beside it, nor after it."""
    world = FeedAgainstOracle(clients, feed_with_table(PRODUCTS, Engine.BIGQUERY))
    row = {"date": TODAY, "product_id": 1, "store_id": 1, "attribute_id": 1, "attr_value": 9, "update_id": 4}
    first = world.land(4, [row])
    world.publish(world.land(4, [{**row, "attr_value": 1}]))
    backlog = split_backlog(world.services.arrivals.deliveries(), world.manifest().deliveries, ())
    assert [d.name for d in backlog.superseded] == [first]
    assert [r[4] for r in world.table_rows()] == [[1, 1]]
