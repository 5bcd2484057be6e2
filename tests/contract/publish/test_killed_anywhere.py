"""What an operator triggers is killed before one of its writes: run again, it ends as if nothing had happened.

A publish with changes, one that a check stops and a person accepts, a retirement, a backfill and a recovery are killed
before each of their writes, a rebuild before each third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from airflow.sdk.exceptions import AirflowFailException
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.lost_records.recovery_plan import carry_out, plan_recovery
from dedup_clone.publish.prune import prune
from dedup_clone.publish.rebuild.resolve_rebuild import delete_copies
from dedup_clone.publish.records.changes_table import load_changes
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.retired import TargetAction
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from testkit.killed_writes import kill_before_write
from tests.contract.new_feeds import new_feed
from tests.contract.publish import changes_rows, rebuild_steps, retirement_steps
from tests.contract.publish.archive import Archive
from tests.contract.publish.lost_objects import damage, lose

pytestmark = pytest.mark.exhaustive

RENAMED = {"attr_value": "value"}
ROWS = [row(7, 1), row(7, 2, 30), row(7, 3, day=YESTERDAY)]


@pytest.fixture
def killed(clients: tuple[Storage, BigQuery]) -> Callable[..., Iterator[tuple[FeedOnStandIn, int]]]:
    """`killed(prepare, work)`: a feed for each write of `work`, which was killed before it, and the write's number.

    `every`: only so many writes are tried.
    """

    def worlds(
        prepare: Callable[[FeedOnStandIn], object], work: Callable[[FeedOnStandIn], object], every: int = 1
    ) -> Iterator[tuple[FeedOnStandIn, int]]:
        for number in count(1, every):
            world = FeedOnStandIn(new_feed("killed_"), *clients)
            prepare(world)
            if not kill_before_write(number, lambda world=world: work(world)):
                break
            yield world, number
        assert number > 3

    return worlds


Worlds = Callable[..., Iterator[tuple[FeedOnStandIn, int]]]


def folders_with_data(world: FeedOnStandIn) -> set[str]:
    return {name.split("/")[2] for name in world.services.store.folders(world.services.layout.data)}


def needed_folders(world: FeedOnStandIn) -> set[str]:
    """The folders of the live generation and its parent."""
    services = world.services
    live = services.manifests.read(services.current.read().generation or 0)
    manifests = [live, services.manifests.read(live.parent)] if live.parent else [live]
    return {manifest.data_folder.split("/data/")[1].split("/")[0] for manifest in manifests if manifest.data_folder}


def test_a_rebuild(killed: Worlds) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        world.publish(world.land(7, ROWS))
        world.feed = rebuild_steps.as_text(world.feed)

    for world, number in killed(prepare, lambda world: rebuild_steps.rebuild(world, renamed=RENAMED), 3):
        if number % 2:  # the run of a delivery comes first
            recover(world.services, dag_id="other", run_id="other")
        if world.services.current.read().generation == 1:
            try:
                rebuild_steps.rebuild(world, renamed=RENAMED)
            except AirflowFailException:  # nothing was left to be done: its swap had happened
                recover(world.services, dag_id="other", run_id="other")
        services = world.services
        assert services.current.read().intent is None
        spec = services.manifests.read(services.current.read().generation or 0)
        assert spec.generation > 1, number
        delete_copies(services, spec)  # type: ignore[arg-type]  # needs the attempt alone
        assert rebuild_steps.select(world, "product_id, value") == [(1, "20"), (2, "30"), (3, "20")]
        prune(services)
        assert folders_with_data(world) <= needed_folders(world), number
        assert services.warehouse.table(services.names.incoming_table) is None


def test_a_publish_with_changes(killed: Worlds) -> None:
    """Whichever task dies, and whoever goes on, the table of changes gets the rows of each generation once."""

    def prepare(world: FeedOnStandIn) -> None:
        world.feed = world.feed.model_copy(update={"changes": True})
        world.publish(world.land(7, ROWS))
        world.land(8, [row(8, 1, 21), row(8, 4)])

    def work(world: FeedOnStandIn) -> None:
        world.publish(world.services.arrivals.deliveries()[-1].name)

    for world, number in killed(prepare, work):
        if number % 2:  # the watchdog comes first
            load_changes(world.services)
        recover(world.services, dag_id="other", run_id="other")
        if world.services.current.read().generation == 1:
            work(world)
        world.publish(world.land(9, [row(9, 1, 22), row(9, 4)]))
        of_second = [("changed", 1, 20, 21), ("new", 4, None, 20)]
        assert [change[1:] for change in changes_rows.changes(world)] == [*of_second, ("changed", 1, 21, 22)], number
        prune(world.services)
        assert not list(world.services.store.objects(world.services.layout.changes)), number
        assert changes_rows.pending(world) == []


def test_a_delivery_that_a_check_stops_and_a_person_accepts(killed: Worlds) -> None:
    """Whatever dies, the stopped delivery is held, a later one goes live without it, and a replay publishes it."""
    base, garbage = [row(7, product) for product in range(10)], [row(8, product) for product in range(40)]
    accepts = {"replay": True, "accepted_checks": ("new_share",), "reason": "right", "run_id": "by-hand"}

    def prepare(world: FeedOnStandIn) -> None:
        world.feed = world.feed.model_copy(update={"checks": CheckSettings(max_survivor_share=1)})
        world.publish(world.land(7, base))
        world.land(8, garbage)

    def name(world: FeedOnStandIn) -> str:
        return world.services.arrivals.deliveries()[1].name

    def work(world: FeedOnStandIn) -> None:
        with pytest.raises(CheckFailed):
            world.publish(name(world))
        recover(world.services, dag_id="other", run_id="other")
        world.publish(name(world), **accepts)

    for world, number in killed(prepare, work):
        recover(world.services, dag_id="other", run_id="other")
        is_live = world.rows() == expected(*garbage)
        assert is_live or world.rows() == expected(*base), number
        if not is_live and not world.services.arrivals.held():
            with pytest.raises(CheckFailed):
                world.publish(name(world))
            recover(world.services, dag_id="other", run_id="other")
        if not is_live and number % 2:
            world.publish(name(world), **accepts)
        world.publish(world.land(9, [row(9, product) for product in range(10)]), run_id="later")
        assert len(world.rows()) == (40 if is_live or number % 2 else 10), number
        world.publish(name(world), **{**accepts, "run_id": "again"})
        kept = [row(8, product) for product in range(10, 40)]
        assert world.rows() == expected(*(row(9, product) for product in range(10)), *kept), number
        prune(world.services)
        assert folders_with_data(world) <= needed_folders(world), number
        generations = {info.name[-13:-5] for info in world.services.store.objects(world.services.layout.manifests)}
        audited = {f"{record.generation:08d}" for record in world.services.ledger.read_last(100)}
        assert {name for name in generations if name.isdigit()} <= audited, number


@pytest.mark.parametrize("action", TargetAction)
def test_a_retirement(killed: Worlds, action: TargetAction) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        world.publish(world.land(7, ROWS))
        world.land(8, [row(8, 1)])

    for world, number in killed(prepare, lambda world: retirement_steps.retire(world, action)):
        record = retirement_steps.retire(world, action)
        has_data = ["data"] if action is TargetAction.EXPORT else []
        assert retirement_steps.kept(world) == sorted(["RETIRED", "ledger", *has_data]), number
        assert (record.generation, record.rows) == (1, 3)
        if action is TargetAction.KEEP:
            assert world.rows() == expected(*ROWS)
        else:
            assert world.services.warehouse.table(world.feed.target) is None
        if action is TargetAction.EXPORT:
            assert retirement_steps.exported_rows(world, record) == expected(*ROWS), number


def test_a_backfill(killed: Worlds) -> None:
    archives: dict[str, Archive] = {}

    def prepare(world: FeedOnStandIn) -> None:
        archive = archives[world.feed.feed] = Archive(world)
        archive.put(3, [row(3, 1, 31), row(3, 2, 32)])
        archive.put(5, [row(5, 2, 52), row(5, 3, 53)])

    def work(world: FeedOnStandIn) -> None:
        archive = archives[world.feed.feed]
        while not archive.land_next():
            for name in archive.notice():
                world.publish(name)

    for world, _ in killed(prepare, work):
        for name in archives[world.feed.feed].notice():
            world.publish(name)
        recover(world.services, dag_id="other", run_id="other")
        generation = world.services.current.read().generation
        live = None if generation is None else world.services.manifests.read(generation)
        for delivery in find_backlog(world.services, live).apply[-1:]:
            world.publish(delivery.name)
        work(world)
        assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(5, 3, 53))


def test_a_recovery_of_lost_records(killed: Worlds) -> None:
    def prepare(world: FeedOnStandIn) -> None:
        world.publish(world.land(7, ROWS))
        lose(world, "CURRENT", "manifests/")
        damage(world, "STAGING", "ledger/")

    def work(world: FeedOnStandIn) -> None:
        carry_out(world.services, plan_recovery(world.services))

    for world, _ in killed(prepare, work):
        work(world)
        assert not plan_recovery(world.services).changes_anything
        world.publish(world.land(8, [row(8, 1, 21)]))
        assert world.rows() == expected(row(8, 1, 21), *ROWS[1:])
