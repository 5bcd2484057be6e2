"""What runs is killed, or sleeps, before one of its writes: whoever goes on, it ends as if nothing had happened.

Every third write is tried, or fewer in long stories; all of them at night.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LeaseLost, LostRace
from testkit import deliveries, operations, runs
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from testkit.killed_writes import asleep_before_write, kill_before_write, spared
from tests.contract.new_feeds import new_feed
from tests.contract.publish import changes_rows
from tests.contract.publish.archived_snapshots import Archive
from tests.contract.publish.existing_tables import MAINTAINED, as_text, maintain, select
from tests.thoroughness import times

ROWS = [row(7, 1), row(7, 2, 30), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4)]
Worlds = Callable[..., Iterator[tuple[FeedOnStandIn, int]]]
Work = Callable[[FeedOnStandIn], Any]


@pytest.fixture(params=range(2))
def numbers(request: pytest.FixtureRequest) -> Callable[..., Iterator[int]]:
    """`numbers(first, every)`: a half of the writes to try, so that no test takes long.

    `first`: the first write that is tried. `every`: in `make test` only so many.
    """

    def half(first: int = 1, every: int = 3) -> Iterator[int]:
        step = times(every, 1)
        return count(first + step * request.param, 2 * step)

    return half


BOTH_SWAPS = pytest.mark.parametrize("swap", ["clone", "copy"])


@pytest.fixture
def swap() -> str:
    return "clone"


@pytest.fixture
def killed(clients: tuple[Storage, BigQuery], numbers: Callable[..., Iterator[int]], swap: str) -> Worlds:
    """`killed(prepare, work)`: a feed for each tried write of `work`, which was killed before it, and its number."""

    def worlds(prepare: Work, work: Work, **which: int) -> Iterator[tuple[FeedOnStandIn, int]]:
        for number in numbers(**which):
            world = FeedOnStandIn(new_feed("killed_"), *clients)
            world.configure(publish={"swap": swap})
            prepare(world)
            if not kill_before_write(number, partial(work, world)):
                break
            yield world, number
        assert number > 3

    return worlds


def assert_nothing_is_left(world: FeedOnStandIn, number: int) -> None:
    """No lease, no data but that of the live generation and its parent, and a record of each generation."""
    assert world.state.lease is None, number
    operations.delete_obsolete(world)
    live = world.state.manifest()
    needed = [live, *([world.state.manifest(live["parent"])] if live["parent"] else [])]
    folders = {manifest["data_folder"].split("/data/")[1].split("/")[0] for manifest in needed}
    assert set(world.state.subfolders("data")) <= folders, number
    audited = {generation for generation, _ in world.state.outcomes()}
    assert set(world.state.generations("manifests")) <= audited, number


def next_publish(world: FeedOnStandIn, number: int, *rows: Any) -> None:
    """A later delivery is published on top, and leaves nothing but itself and its parent."""
    world.publish(world.land(9, list(rows)), run_id="later")
    assert_nothing_is_left(world, number)


def publish_first(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, ROWS))


@BOTH_SWAPS
def test_a_publish_with_changes(killed: Worlds) -> None:
    """The table of changes gets the rows of each generation once."""

    def prepare(world: FeedOnStandIn) -> None:
        world.configure(changes=True)
        publish_first(world)
        world.land(8, SECOND)

    def work(world: FeedOnStandIn) -> None:
        world.publish(world.state.deliveries("arrivals")[-1])

    for world, number in killed(prepare, work, first=2):
        if number % 2:  # the watchdog comes first
            operations.load_waiting_changes(world)
        operations.recover_lease(world)
        if world.state.generation == 1:
            work(world)
        next_publish(world, number, row(9, 1, 22), row(9, 2, 30), row(9, 4))
        found = [change[1:] for change in changes_rows.changes(world) if change[1] in ("changed", "new")]
        assert found == [("changed", 1, 20, 21), ("new", 4, None, 20), ("changed", 1, 21, 22)], number
        assert world.state.names("changes/") == [], number
        assert changes_rows.pending(world) == []


@BOTH_SWAPS
def test_a_publish_that_only_seemed_dead(
    clients: tuple[Storage, BigQuery], numbers: Callable[..., Iterator[int]], swap: str
) -> None:
    """It sleeps before a write while another run ends it and publishes, and does no harm when it wakes up."""
    for number in numbers(first=2, every=5):
        world = FeedOnStandIn(new_feed("asleep_"), *clients)
        world.configure(publish={"swap": swap})
        publish_first(world)
        name = world.land(8, SECOND)

        def publish_another(world: FeedOnStandIn = world) -> Any:
            return world.publish(world.land(9, [row(9, 1, 22)]), run_id="other")

        # It fails with an error of any kind, or finds nothing to do, or has ended before.
        with asleep_before_write(number, publish_another) as woken, contextlib.suppress(Exception):
            world.publish(name)
        if not woken:
            break
        assert world.rows() == expected(row(9, 1, 22), row(8, 4), *ROWS[1:]), number
        operations.recover_lease(world)
        world.publish(world.land(10, [row(10, 2, 10)]))
        assert world.rows() == expected(row(9, 1, 22), row(8, 4), row(10, 2, 10), ROWS[2]), number
        assert_nothing_is_left(world, number)
    assert number > 20


def unless_lost(work: Callable[[], Any]) -> None:
    with contextlib.suppress(LeaseLost, LostRace):
        work()


@BOTH_SWAPS
def test_a_publish_that_goes_on_while_another_run_ends_it(clients: tuple[Storage, BigQuery], swap: str) -> None:
    """It swaps before one of the writes of its recovery: either its swap is committed, or it cannot swap any more."""
    for number in count(1):
        world = FeedOnStandIn(new_feed("alive_"), *clients)
        world.configure(publish={"swap": swap})
        publish_first(world)
        go_on = partial(world.swap, *world.publish_to_check(world.land(8, SECOND)))
        with asleep_before_write(number, partial(unless_lost, go_on)) as woken:
            unless_lost(partial(operations.recover_lease, world))
        operations.recover_lease(world)  # Airflow repeats a task that lost a race
        if not woken:
            break
        is_live = world.live() == "2"
        assert world.state.outcomes()[-1][1] == ("published" if is_live else "failed"), number
        assert world.rows() == (expected(row(8, 1, 21), row(8, 4), *ROWS[1:]) if is_live else expected(*ROWS)), number
        next_publish(world, number, row(9, 1, 22))
    assert number > 3


def test_a_delivery_that_a_check_stops_and_a_person_accepts(killed: Worlds) -> None:
    """Whatever dies, the stopped delivery is held, a later one goes live without it, and a replay publishes it."""
    base, garbage = [row(7, product) for product in range(10)], [row(8, product) for product in range(40)]
    accepts = {"replay": True, "accepted_checks": ("new_share",), "reason": "right", "run_id": "by-hand"}

    def prepare(world: FeedOnStandIn) -> None:
        world.configure(checks={"max_new_share": 0.2})
        world.publish(world.land(7, base))
        world.land(8, garbage)

    def stopped(world: FeedOnStandIn) -> str:
        return world.state.deliveries("arrivals")[1]

    def work(world: FeedOnStandIn) -> None:
        with pytest.raises(CheckFailed):
            world.publish(stopped(world))
        operations.recover_lease(world)
        world.publish(stopped(world), **accepts)

    for world, number in killed(prepare, work, first=3, every=7):
        operations.recover_lease(world)
        is_live = world.rows() == expected(*garbage)
        assert is_live or world.rows() == expected(*base), number
        if not is_live and not world.state.deliveries("held"):
            with pytest.raises(CheckFailed):
                world.publish(stopped(world))
            operations.recover_lease(world)
        if not is_live and number % 2:
            world.publish(stopped(world), **accepts)
        newest = [row(9, product) for product in range(10)]
        next_publish(world, number, *newest)
        assert len(world.rows()) == (40 if is_live or number % 2 else 10), number
        world.publish(stopped(world), **{**accepts, "run_id": "again"})
        assert world.rows() == expected(*newest, *(row(8, product) for product in range(10, 40))), number
        assert_nothing_is_left(world, number)


@BOTH_SWAPS
def test_a_rollback(killed: Worlds) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        publish_first(world)
        world.publish(world.land(8, SECOND))

    for world, number in killed(prepare, lambda world: world.roll_back(1)):
        operations.recover_lease(world)
        if world.state.generation == 2:
            assert world.rows() == expected(*SECOND, *ROWS[1:]), number
            world.roll_back(1, run_id="again")
        assert world.rows() == expected(*ROWS), number
        next_publish(world, number, row(9, 1, 22))
        assert world.rows() == expected(row(9, 1, 22), *ROWS[1:]), number


def test_a_bootstrap(killed: Worlds) -> None:
    for world, number in killed(maintain, lambda world: runs.bootstrap(world).finish(), first=2):
        assert world.rows() == expected(*MAINTAINED), number
        operations.recover_lease(world)
        if world.state.generation is None:
            runs.bootstrap(world, run_id="again").finish()
        assert world.rows() == expected(*MAINTAINED), number
        next_publish(world, number, row(9, 4, 22))
        assert world.rows() == expected(row(9, 4, 22), *(r for r in MAINTAINED if r["product_id"] != 4))


def test_a_rebuild(killed: Worlds) -> None:
    renamed = {"attr_value": "value"}

    def prepare(world: FeedOnStandIn) -> None:
        publish_first(world)
        world.feed = as_text(world.feed)

    for world, number in killed(prepare, lambda world: runs.rebuild(world, renamed=renamed).finish()):
        if number % 2:  # the run of a delivery comes first
            operations.recover_lease(world)
        if world.state.generation == 1:
            try:
                runs.rebuild(world, renamed=renamed).finish()
            except ConfigurationError:  # nothing was left to be done: its swap had happened
                operations.recover_lease(world)
        assert world.state.generation, number
        assert world.state.generation > 1, number
        operations.delete_rebuilt_copies(world)
        assert select(world, "product_id, value") == [(1, "20"), (2, "30"), (3, "20")]
        assert_nothing_is_left(world, number)
        assert world.incoming() == [], number


@BOTH_SWAPS
def test_an_erasure(killed: Worlds) -> None:
    keys, left = "product_id\n1\n", [ROWS[1], ROWS[2]]

    for world, number in killed(publish_first, lambda world: runs.erasure(world, keys).finish(), first=2):
        operations.recover_lease(world)
        if world.state.generation == 1:
            assert world.rows() == expected(*ROWS), number
            runs.erasure(world, keys, run_id="again").finish()
        elif world.state.names("to_erase/"):
            runs.erasure(world, None).step("clean")
        assert world.rows() == world.rows(world.feed.staging) == expected(*left), number
        assert world.state.generations("data") == [world.state.generation], number
        assert world.state.names("erasures/") == [f"erasures/{world.state.generation:08}.json"], number
        next_publish(world, number, row(9, 1, 22), row(9, 4))
        assert world.rows() == expected(*left, row(9, 4)), number


@pytest.mark.parametrize("action", ["keep", "drop"])
def test_a_retirement(killed: Worlds, action: str) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        publish_first(world)
        world.land(8, [row(8, 1)])

    for world, number in killed(prepare, lambda world: operations.retire(world, action)):
        record = operations.retire(world, action)
        kept = {name.split("/")[0] for name in world.state.names()}
        assert kept == {"CURRENT", "fingerprint_seed", "ledger"}, number
        assert record.generation == 1
        if action == "keep":
            assert world.rows() == expected(*ROWS)
        else:
            tables = {found.table_id for found in world.bigquery.list_tables("warehouse")}
            assert world.feed.target not in tables


def test_a_backfill(killed: Worlds, tmp_path: Path) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        archive = Archive(world, tmp_path)
        archive.put(3, [row(3, 1, 31), row(3, 2, 32)])
        archive.put(5, [row(5, 2, 52), row(5, 3, 53)])

    def publish(archive: Archive) -> None:
        with spared():
            archive.publish_what_landed()

    def work(world: FeedOnStandIn) -> None:
        archive = Archive(world, tmp_path)
        assert archive.backfill("--apply", meanwhile=partial(publish, archive)) == 0

    for world, _ in killed(prepare, work, every=1):
        Archive(world, tmp_path).publish_what_landed()
        operations.recover_lease(world)
        for name in deliveries.waiting_deliveries(world)[-1:]:
            world.publish(name)
        work(world)
        assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(5, 3, 53))


def test_a_recovery_of_lost_records(killed: Worlds) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        publish_first(world)
        world.state.lose("CURRENT", "manifests/", "ledger/")

    for world, _ in killed(prepare, operations.recover_records):
        operations.recover_records(world)
        assert not operations.recover_records(world).changes_anything
        world.publish(world.land(8, [row(8, 1, 21)]))
        assert world.rows() == expected(row(8, 1, 21), *ROWS[1:])
